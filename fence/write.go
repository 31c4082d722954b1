package fence

import (
	"context"
	"errors"
	"fmt"

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
// With upsert the filter must name _id: two documents could come of it otherwise, one for each holder.
func (f Fence) UpdateOne(ctx context.Context, coll *mongo.Collection, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	u, err := f.Update(update)
	if err != nil {
		return nil, err
	}
	o, err := apply(opts)
	if err != nil {
		return nil, err
	}
	return f.write(ctx, coll, filter, o.Upsert, func(coll *mongo.Collection, filter any) (*mongo.UpdateResult, error) {
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
	return f.write(ctx, coll, filter, o.Upsert, func(coll *mongo.Collection, filter any) (*mongo.UpdateResult, error) {
		return coll.ReplaceOne(ctx, filter, r, opts...)
	})
}

// DeleteOne is the collection's DeleteOne for a holder; see [Fence.UpdateOne]. The document's token goes with it.
func (f Fence) DeleteOne(ctx context.Context, coll *mongo.Collection, filter any, opts ...options.Lister[options.DeleteOneOptions]) (*mongo.DeleteResult, error) {
	res := &mongo.DeleteResult{}
	_, err := f.write(ctx, coll, filter, nil, func(coll *mongo.Collection, filter any) (*mongo.UpdateResult, error) {
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

// write makes a fenced write, and finds out why when it matched nothing. A document that admits the token by then was changed in between,
// so the write is made again; each round needs another change by somebody else.
func (f Fence) write(ctx context.Context, coll *mongo.Collection, filter any, upsert *bool, do func(*mongo.Collection, any) (*mongo.UpdateResult, error)) (*mongo.UpdateResult, error) {
	upserts := upsert != nil && *upsert
	if d, err := document(filter, "filter"); err != nil {
		return nil, err
	} else if upserts && !namesID(d) {
		return nil, invalid("a filter with upsert must name _id")
	}
	coll = pinned(coll)
	for {
		res, err := do(coll, f.Filter(filter))
		switch {
		case upserts && mongo.IsDuplicateKeyError(err):
			// The document is there and does not admit the token, or another unique index objects.
		case err != nil:
			return nil, err
		case res.MatchedCount > 0 || res.UpsertedCount > 0:
			return res, nil
		}
		if err != nil && mongo.SessionFromContext(ctx) != nil {
			// An error has aborted the transaction; there is nothing more to be read in it.
			return nil, errors.Join(&StaleError{Token: f.token}, err)
		}
		found, again := f.judge(ctx, coll, filter)
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
func (f Fence) judge(ctx context.Context, coll *mongo.Collection, filter any) (err error, again bool) {
	raw, err := coll.FindOne(ctx, filter, options.FindOne().SetProjection(bson.D{{Key: f.field, Value: 1}})).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, false
	case err != nil:
		return fmt.Errorf("fairlock: read the token of a document: %w", err), false
	}
	v := raw.Lookup(f.field)
	if v.IsZero() || v.Type == bson.TypeNull {
		return nil, true
	}
	seen, ok := v.AsInt64OK()
	switch {
	case !ok:
		return invalid("the document's field %q is a %s, not a token", f.field, v.Type), false
	case seen > f.token:
		return &StaleError{Token: f.token, Seen: seen}, false
	}
	return nil, true
}

func namesID(filter bson.D) bool {
	for _, e := range filter {
		if e.Key == "_id" {
			return true
		}
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
