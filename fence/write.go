package fence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// pinned is the collection with the concerns that a fence needs: a token that a failover takes back refuses nobody. In a transaction the
// transaction's own hold.
func pinned(coll *mongo.Collection) *mongo.Collection {
	return coll.Clone(options.Collection().
		SetWriteConcern(writeconcern.Majority()).
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()))
}

// UpdateOne is the collection's UpdateOne for a holder: update is a document of operators or a pipeline. It writes with majority
// concern. It returns an error that matches [ErrStale] when the document that filter finds, or would be upserted
// beside, was written to by a later holder; then nothing was changed. A filter that finds nothing is no error: MatchedCount
// is 0, as with the driver. After any other error the outcome is unknown, and the call may be repeated.
//
// With upsert the filter must name _id by its value: two documents could come of it otherwise, one for each holder. A filter that several
// documents match is judged by those that admit the token, so name _id there too.
func (f Fence) UpdateOne(ctx context.Context, coll *mongo.Collection, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	u, err := f.Update(update)
	if err != nil {
		return nil, err
	}
	o, err := apply(opts)
	if err != nil {
		return nil, err
	}
	return f.write(ctx, coll, filter, reading{o.Upsert, o.Collation, o.Hint, o.Let}, func(coll *mongo.Collection, filter any) (*mongo.UpdateResult, error) {
		return coll.UpdateOne(ctx, filter, u, opts...)
	})
}

// ReplaceOne is the collection's ReplaceOne for a holder; see [Fence.UpdateOne].
func (f Fence) ReplaceOne(ctx context.Context, coll *mongo.Collection, filter, replacement any, opts ...options.Lister[options.ReplaceOptions]) (*mongo.UpdateResult, error) {
	r, err := f.Replacement(replacement)
	if err != nil {
		return nil, err
	}
	o, err := apply(opts)
	if err != nil {
		return nil, err
	}
	return f.write(ctx, coll, filter, reading{o.Upsert, o.Collation, o.Hint, o.Let}, func(coll *mongo.Collection, filter any) (*mongo.UpdateResult, error) {
		return coll.ReplaceOne(ctx, filter, r, opts...)
	})
}

// DeleteOne is the collection's DeleteOne for a holder; see [Fence.UpdateOne]. The document's token goes with it.
func (f Fence) DeleteOne(ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.DeleteOneOptions]) (*mongo.DeleteResult, error) {
	o, err := apply(opts)
	if err != nil {
		return nil, err
	}
	res := &mongo.DeleteResult{}
	_, err = f.write(ctx, coll, filter, reading{nil, o.Collation, o.Hint, o.Let}, func(coll *mongo.Collection, filter any) (*mongo.UpdateResult, error) {
		var err error
		if res, err = coll.DeleteOne(ctx, filter, opts...); err != nil {
			return nil, err
		}
		return &mongo.UpdateResult{MatchedCount: res.DeletedCount}, nil
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// reading is how the server is to read the filter. Whoever asks why a write matched nothing must have it read in the same way: otherwise a
// stale write can be taken for one that found nothing, or be made again for ever.
type reading struct {
	upsert    *bool
	collation *options.Collation
	hint, let any
}

// write makes a fenced write, and finds out why when it matched nothing. A document that admits the token by then was changed in between,
// so the write is made again; each round needs another change by somebody else.
func (f Fence) write(ctx context.Context, coll *mongo.Collection, filter any, as reading, do func(*mongo.Collection, any) (*mongo.UpdateResult, error)) (*mongo.UpdateResult, error) {
	if f.token <= 0 {
		return nil, invalid("token %d must be above 0; a Fence is made by New", f.token)
	}
	upserts := as.upsert != nil && *as.upsert
	if d, err := document(filter, "filter"); err != nil {
		return nil, err
	} else if upserts && !namesID(d) {
		return nil, invalid("a filter with upsert must name _id, by its value")
	}
	coll = pinned(coll)
	s := mongo.SessionFromContext(ctx)
	inTransaction := s != nil && s.TransactionRunning()
	if upserts && inTransaction {
		// An upsert beside the document is an error that aborts the transaction, and nothing could be read in it any more. The write sees what
		// this read sees.
		if stale, _ := f.judge(ctx, coll, filter, as); stale != nil {
			return nil, stale
		}
	}
	for {
		res, err := do(coll, f.Filter(filter))
		switch {
		case upserts && !inTransaction && repeatsID(err):
			// The document is there, and does not admit the token or is not what the rest of the filter wants.
		case err != nil:
			return nil, err
		case res.MatchedCount > 0 || res.UpsertedCount > 0:
			return res, nil
		}
		found, again := f.judge(ctx, coll, filter, as)
		switch {
		case found != nil:
			return nil, found
		case err != nil && !again:
			return nil, err
		case !again:
			return res, nil
		}
	}
}

// judge says why a write matched nothing: a stale token is an error; again means that there is a document which admits it now.
func (f Fence) judge(ctx context.Context, coll *mongo.Collection, filter any, as reading) (err error, again bool) {
	o := options.Find().SetProjection(bson.D{{Key: f.field, Value: 1}}).SetLimit(1).SetCollation(as.collation).SetHint(as.hint).SetLet(as.let)
	cur, err := coll.Find(ctx, filter, o)
	if err != nil {
		return unread(err), false
	}
	defer cur.Close(context.WithoutCancel(ctx))
	if !cur.Next(ctx) {
		if err := cur.Err(); err != nil {
			return unread(err), false
		}
		return nil, false
	}
	v := cur.Current.Lookup(f.field)
	if v.IsZero() || v.Type == bson.TypeNull {
		return nil, true
	}
	seen, ok := v.AsInt64OK()
	if d, double := v.DoubleOK(); double && !(d == math.Trunc(d) && math.Abs(d) < 1<<63) {
		// The server compares what it is, not what would be left of it as an integer.
		return invalid("the document's field %q is %v, not a token", f.field, d), false
	}
	switch {
	case !ok:
		return invalid("the document's field %q is a %s, not a token", f.field, v.Type), false
	case seen > f.token:
		return &StaleError{Token: f.token, Seen: seen}, false
	}
	return nil, true
}

func unread(err error) error { return fmt.Errorf("fairlock: read the token of a document: %w", err) }

// repeatsID reports whether a write failed because another document has its _id, and for no other unique index.
func repeatsID(err error) bool {
	var we mongo.WriteException
	if !errors.As(err, &we) || !mongo.IsDuplicateKeyError(err) {
		return false
	}
	for _, e := range we.WriteErrors {
		if _, err := e.Raw.LookupErr("keyPattern", "_id"); err != nil {
			return false
		}
	}
	return len(we.WriteErrors) > 0
}

// namesID reports whether an upsert by the filter makes the document of one _id.
func namesID(filter bson.D) bool {
	for _, e := range filter {
		if e.Key != "_id" {
			continue
		}
		operators, ok := e.Value.(bson.D)
		return !ok || len(operators) == 0 || !strings.HasPrefix(operators[0].Key, "$") || len(operators) == 1 && operators[0].Key == "$eq"
	}
	return false
}

func apply[T any](opts []options.Lister[T]) (T, error) {
	var o T
	for _, l := range opts {
		for _, set := range l.List() {
			if err := set(&o); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}
