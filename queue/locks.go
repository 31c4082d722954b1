package queue

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
)

var _ Store = (*Collections)(nil)

// noDone leaves out what waiters do not need: done can be large, last is nobody else's business.
var noDone = bson.D{{Key: "done", Value: 0}, {Key: "last", Value: 0}}

// Enqueue implements [Store]. The reply is the document after a real change that a majority has, so what it shows is
// fact; a reply that shows another shape shows no change, and is believed only as a refusal.
func (c *Collections) Enqueue(ctx context.Context, name string, shape Shape, a Arrival) (Place, error) {
	p, admitted, err := c.arriveAgain(ctx, name, shape, a)
	if err == nil && !admitted {
		p, admitted, err = c.arrive(ctx, name, shape, a, true)
	}
	if err == nil && !admitted {
		// The shape agrees and there was nothing else to refuse for.
		return Place{}, fmt.Errorf("%w: lock %q: arrival not recorded", ErrMalformed, name)
	}
	return p, err
}

// Try implements [Store].
func (c *Collections) Try(ctx context.Context, name string, shape Shape, a Arrival) (Place, bool, error) {
	return c.arrive(ctx, name, shape, a, op("$lte", op("$add", "$issued", a.Units), "$frontier"))
}

// arriveReply is the document after an arrival, as far as an arrival needs it.
type arriveReply struct {
	View `bson:",inline"`
	Last map[string]struct {
		Mark    int64 `bson:"mark"`
		Hi      int64 `bson:"hi"`
		Arrival int64 `bson:"arrival"`
	} `bson:"last"`
}

// place is what the reply gives the arrival; ok is false when it gives nothing.
func (r *arriveReply) place(a Arrival) (p Place, ok bool) {
	last, ok := r.Last[slotOf(a)]
	if !ok || last.Mark != a.Mark {
		return Place{View: r.View}, false
	}
	return Place{Range{last.Hi - a.Units + 1, last.Hi}, last.Arrival, r.View}, true
}

func (c *Collections) findAndArrive(ctx context.Context, f bson.D, p mongo.Pipeline, a Arrival, upsert bool) (reply arriveReply, err error) {
	err = c.locks.FindOneAndUpdate(ctx, f, p, options.FindOneAndUpdate().SetUpsert(upsert).SetReturnDocument(options.After).
		SetProjection(bson.D{
			{Key: "kind", Value: 1}, {Key: "permits", Value: 1}, {Key: "issued", Value: 1}, {Key: "settled", Value: 1},
			{Key: "frontier", Value: 1}, {Key: "arrivals", Value: 1}, {Key: "reached", Value: 1}, {Key: "last." + slotOf(a), Value: 1},
		})).Decode(&reply)
	if err == nil {
		err = reply.check()
	}
	return reply, err
}

// arriveAgain is arrive in the usual case, in which the document exists, has the shape and does not know the arrival. These
// conditions are in the filter, and what is left of the pipeline takes a twentieth off the time of a write. In every other
// case, and where the answer may be an old one, it changes nothing, costs a twentieth of a write, and proves nothing.
func (c *Collections) arriveAgain(ctx context.Context, name string, shape Shape, a Arrival) (Place, bool, error) {
	f := bson.D{
		{Key: "_id", Value: name},
		{Key: "kind", Value: string(shape.Kind)},
		{Key: "permits", Value: shape.Permits},
		{Key: "last." + slotOf(a) + ".mark", Value: bson.D{{Key: "$ne", Value: a.Mark}}},
	}
	reply, err := c.findAndArrive(ctx, f, arriveAgainPipeline(a), a, false)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return Place{}, false, nil
	}
	if err != nil {
		return Place{}, false, wrap(name, err)
	}
	p, ok := reply.place(a)
	return p, ok, nil
}

// arrive applies the pipeline. The filter is _id alone: only then does the server itself repeat an upsert
// that met a concurrent one, so that no duplicate key error comes back. Whether numbers were issued is told by the mark in
// the slot, since the document after a refused try looks like the one after another's success.
func (c *Collections) arrive(ctx context.Context, name string, shape Shape, a Arrival, admit any) (Place, bool, error) {
	reply, err := c.findAndArrive(ctx, bson.D{{Key: "_id", Value: name}}, c.arrivePipeline(shape, a, admit), a, true)
	if err != nil {
		return Place{}, false, wrap(name, err)
	}
	if have := reply.Shape(); have != shape {
		return Place{}, false, &MismatchError{name, shape, have}
	}
	p, ok := reply.place(a)
	return p, ok, nil
}

// Settle implements [Store]. The filter leaves out a document in which all is settled already, so whether one was matched
// is the answer and no document has to be returned (an updateOne costs the server a quarter less than a findAndModify).
// "Not matched" says that the numbers were settled before, which stays true however old the server's state is, or that the server
// does not know them: the document is gone, or was made anew. Never an upsert: a missing document is a dropped lock.
func (c *Collections) Settle(ctx context.Context, name string, ranges []Range, arrival int64) (bool, error) {
	var open bson.A
	var last int64
	for _, r := range ranges {
		within := bson.D{{Key: "$elemMatch", Value: bson.D{
			{Key: "lo", Value: bson.D{{Key: "$lte", Value: r.Lo}}}, {Key: "hi", Value: bson.D{{Key: "$gte", Value: r.Hi}}},
		}}}
		open = append(open, bson.D{
			{Key: "settled", Value: bson.D{{Key: "$lt", Value: r.Hi}}},
			{Key: "done", Value: bson.D{{Key: "$not", Value: within}}},
		})
		last = max(last, r.Hi)
	}
	f := bson.D{
		{Key: "_id", Value: name},
		{Key: "issued", Value: bson.D{{Key: "$gte", Value: last}}},
		{Key: "$or", Value: open},
	}
	res, err := c.locks.UpdateOne(ctx, f, settlePipeline(ranges, arrival))
	if err != nil {
		return false, wrap(name, err)
	}
	return res.MatchedCount == 1, nil
}

// SettleFront implements [Store]. All conditions of the case are in the filter, so the pipeline need not look at done, which
// takes a tenth off the time of a write.
func (c *Collections) SettleFront(ctx context.Context, name string, shape Shape, r Range, arrival int64) (bool, error) {
	f := bson.D{
		{Key: "_id", Value: name},
		{Key: "settled", Value: r.Lo - 1},
		{Key: "done", Value: bson.A{}},
		{Key: "issued", Value: bson.D{{Key: "$gte", Value: r.Hi}}},
		{Key: "permits", Value: shape.Permits},
	}
	res, err := c.locks.UpdateOne(ctx, f, settleFrontPipeline(shape, r, arrival))
	if err != nil {
		return false, wrap(name, err)
	}
	return res.MatchedCount == 1, nil
}

// Views implements [Store].
func (c *Collections) Views(ctx context.Context, names []string) ([]View, error) {
	cur, err := c.locks.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: names}}}},
		options.Find().SetProjection(noDone).SetBatchSize(1000))
	if err != nil {
		return nil, fmt.Errorf("fairlock: read locks: %w", err)
	}
	views, _, err := DecodeAll[View](ctx, cur, (*View).check)
	return views, err
}

// View implements [Store].
func (c *Collections) View(ctx context.Context, name string) (View, bool, error) {
	var v View
	switch err := c.locks.FindOne(ctx, bson.D{{Key: "_id", Value: name}}).Decode(&v); {
	case errors.Is(err, mongo.ErrNoDocuments):
		return View{}, false, nil
	case err != nil:
		return View{}, false, wrap(name, err)
	}
	return v, true, v.check()
}

// Gone implements [Store]. A standalone server has no linearizable reads and no other member that could know better.
func (c *Collections) Gone(ctx context.Context, name string) (bool, error) {
	coll := c.locks
	if c.clusterTime {
		coll = coll.Clone(options.Collection().SetReadConcern(readconcern.Linearizable()))
	}
	err := coll.FindOne(ctx, bson.D{{Key: "_id", Value: name}}, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return true, nil
	}
	return false, wrap(name, err)
}

// BusyLocks implements [Store]. idleSince is present only while nobody is there, and its index finds the absent ones.
func (c *Collections) BusyLocks(ctx context.Context, after string, limit int) ([]string, error) {
	f := bson.D{{Key: "idleSince", Value: nil}, {Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}}

	cur, err := c.locks.Find(ctx, f, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}).
		SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)))
	if err != nil {
		return nil, fmt.Errorf("fairlock: list locks: %w", err)
	}
	type id struct {
		Name string `bson:"_id"`
	}
	ids, _, err := DecodeAll[id](ctx, cur, nil)
	names := make([]string, len(ids))
	for i := range ids {
		names[i] = ids[i].Name
	}
	return names, err
}

// Page implements [Store].
func (c *Collections) Page(ctx context.Context, after string, limit int) ([]View, error) {
	cur, err := c.locks.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}},
		options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)).SetBatchSize(1000))
	if err != nil {
		return nil, fmt.Errorf("fairlock: list locks: %w", err)
	}
	views, _, err := DecodeAll(ctx, cur, (*View).check)
	return views, err
}

// Collect implements [Store]. The day is the server's, and the condition is in the delete itself, so a document that somebody
// came back to is left alone.
func (c *Collections) Collect(ctx context.Context) error {
	old := op("$lt", "$idleSince", op("$subtract", "$$NOW", idleDays.Milliseconds()))
	_, err := c.locks.DeleteMany(ctx, bson.D{
		{Key: "idleSince", Value: bson.D{{Key: "$type", Value: "date"}}}, {Key: "$expr", Value: old},
	})
	return err
}

// DecodeAll reads a cursor to its end. Documents that are not ours by their form are left out and counted: one of them must
// not stop the queue of the others.
func DecodeAll[T any](ctx context.Context, cur *mongo.Cursor, check func(*T) error) (all []T, malformed int, err error) {
	defer cur.Close(context.WithoutCancel(ctx))
	for cur.Next(ctx) {
		var v T
		if cur.Decode(&v) != nil || check != nil && check(&v) != nil {
			malformed++
			continue
		}
		all = append(all, v)
	}
	if err := cur.Err(); err != nil {
		return nil, malformed, fmt.Errorf("fairlock: read: %w", err)
	}
	return all, malformed, nil
}
