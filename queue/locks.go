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

// noDone leaves out what waiters do not need: done can be large, last is nobody else's business, audit is for people.
var noDone = bson.D{{Key: "done", Value: 0}, {Key: "last", Value: 0}, {Key: "audit", Value: 0}}

// Enqueue implements [Store]. The reply is the document after a real change that a majority has, so what it shows is
// fact; a reply that shows another shape or too many waiters shows no change, and is believed only as a refusal.
func (c *Collections) Enqueue(ctx context.Context, name string, shape Shape, a Arrival) (Place, error) {
	p, admitted, err := c.arriveAgain(ctx, name, shape, a)
	if err == nil && !admitted {
		p, admitted, err = c.arrive(ctx, name, shape, a, withinLimit(a))
	}
	if err == nil && !admitted {
		err = a.Refusal(name, p.View)
	}
	return p, c.blame(ctx, name, err)
}

// Try implements [Store].
func (c *Collections) Try(ctx context.Context, name string, shape Shape, a Arrival) (Place, bool, error) {
	p, admitted, err := c.arrive(ctx, name, shape, a, op("$lte", op("$add", "$issued", a.Units), "$frontier"))
	return p, admitted, c.blame(ctx, name, err)
}

// blame finds out whether a write was refused because of the lock document, which then names what is wrong with it: the
// server's error would only name an operator.
func (c *Collections) blame(ctx context.Context, name string, err error) error {
	var se mongo.ServerError
	if !Permanent(err) || !errors.As(err, &se) || errors.Is(err, ErrPrivilege) {
		return err
	}
	raw, rerr := c.locks.FindOne(ctx, bson.D{{Key: "_id", Value: name}}).Raw()
	if rerr != nil {
		return err
	}
	if _, malformed := decodeView(raw); malformed != nil {
		return malformed
	}
	return err
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
	show := bson.D{
		{Key: "v", Value: 1}, {Key: "kind", Value: 1}, {Key: "permits", Value: 1}, {Key: "managed", Value: 1}, {Key: "issued", Value: 1},
		{Key: "settled", Value: 1}, {Key: "frontier", Value: 1}, {Key: "arrivals", Value: 1}, {Key: "reached", Value: 1},
		{Key: "forces", Value: 1}, {Key: "last." + slotOf(a), Value: 1},
	}
	need := []string{"find", "update"}
	if upsert {
		need = append(need, "insert")
		if a.Limit > 0 {
			show = append(show, bson.E{Key: "done", Value: 1}) // a refusal says how many wait
		}
	}
	raw, err := c.locks.FindOneAndUpdate(ctx, f, p, options.FindOneAndUpdate().SetUpsert(upsert).
		SetReturnDocument(options.After).SetProjection(show)).Raw()
	if err != nil {
		return reply, Explain(ctx, c.locks, err, need...)
	}
	if err := bson.Unmarshal(raw, &reply); err != nil {
		return reply, Malformed("lock", nameOf(raw), "%v", err)
	}
	return reply, reply.check()
}

// arriveAgain is arrive in the usual case, in which the document exists, has the shape and does not know the arrival. These
// conditions are in the filter, and what is left of the pipeline takes a twentieth off the time of a write. In every other
// case, and where the answer may be an old one, it changes nothing, costs a twentieth of a write, and proves nothing.
func (c *Collections) arriveAgain(ctx context.Context, name string, shape Shape, a Arrival) (Place, bool, error) {
	f := bson.D{
		{Key: "_id", Value: name},
		{Key: "kind", Value: string(shape.Kind)},
		{Key: "permits", Value: shape.Permits},
		{Key: "v", Value: SchemaVersion},
		{Key: "last." + slotOf(a) + ".mark", Value: bson.D{{Key: "$ne", Value: a.Mark}}},
	}
	if a.Limit > 0 {
		// Those who gave up out of order are counted here, so that what matches is surely within the limit.
		f = append(f, bson.E{Key: "$expr", Value: op("$lte", beyondFrontier(a), a.Limit)})
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
	if !reply.Agrees(shape) {
		return Place{}, false, &MismatchError{name, shape, reply.Shape()}
	}
	p, ok := reply.place(a)
	if !ok && a.weight() > reply.Permits {
		return p, false, &TooBigError{Name: name, Units: a.weight(), Permits: reply.Permits}
	}
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
		open = append(open, notSettled(r))
		last = max(last, r.Hi)
	}
	f := bson.D{
		{Key: "_id", Value: name},
		{Key: "issued", Value: bson.D{{Key: "$gte", Value: last}}},
		{Key: "$or", Value: open},
	}
	res, err := c.locks.UpdateOne(ctx, f, settlePipeline(ranges, arrival))
	if err != nil {
		return false, c.blame(ctx, name, wrap(name, Explain(ctx, c.locks, err, "update")))
	}
	return res.MatchedCount == 1, nil
}

// notSettled matches documents in which a number of r is not settled.
func notSettled(r Range) bson.D {
	within := bson.D{{Key: "$elemMatch", Value: bson.D{
		{Key: "lo", Value: bson.D{{Key: "$lte", Value: r.Lo}}}, {Key: "hi", Value: bson.D{{Key: "$gte", Value: r.Hi}}},
	}}}
	return bson.D{
		{Key: "settled", Value: bson.D{{Key: "$lt", Value: r.Hi}}},
		{Key: "done", Value: bson.D{{Key: "$not", Value: within}}},
	}
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
		return false, c.blame(ctx, name, wrap(name, Explain(ctx, c.locks, err, "update")))
	}
	return res.MatchedCount == 1, nil
}

// Views implements [Store].
func (c *Collections) Views(ctx context.Context, names []string) ([]View, error) {
	cur, err := c.locks.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: names}}}},
		options.Find().SetProjection(noDone).SetBatchSize(1000))
	if err != nil {
		return nil, fmt.Errorf("fairlock: read locks: %w", Explain(ctx, c.locks, err, "find"))
	}
	return ReadAll(ctx, c.locks, cur, decodeView, c.passed)
}

// whole is all that a View has. The server's clock comes with it.
var whole = func() (show bson.D) {
	for _, f := range []string{
		"v", "kind", "permits", "managed", "issued", "settled", "frontier", "arrivals", "reached", "calls", "calledAt", "grace", "idleSince",
		"done", "request", "forces", "forced", "audit",
	} {
		show = append(show, bson.E{Key: f, Value: 1})
	}
	return append(show, bson.E{Key: "now", Value: "$$NOW"})
}()

// View implements [Store].
func (c *Collections) View(ctx context.Context, name string) (View, bool, error) {
	raw, err := c.locks.FindOne(ctx, bson.D{{Key: "_id", Value: name}}, options.FindOne().SetProjection(whole)).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return View{}, false, nil
	case err != nil:
		return View{}, false, wrap(name, Explain(ctx, c.locks, err, "find"))
	}
	v, err := decodeView(raw)
	return v, true, err
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
	return false, wrap(name, Explain(ctx, c.locks, err, "find"))
}

// BusyLocks implements [Store]. idleSince is present only while nobody is there, and its index finds the absent ones.
func (c *Collections) BusyLocks(ctx context.Context, after string, limit int) ([]string, error) {
	f := bson.D{{Key: "idleSince", Value: nil}, {Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}}

	names, err := ReadSorted(ctx, c.locks, f, bson.D{{Key: "_id", Value: 1}}, limit, func(raw bson.Raw) (string, error) {
		name, ok := raw.Lookup("_id").StringValueOK()
		if !ok {
			return "", Malformed("lock", nameOf(raw), "_id must be a string")
		}
		return name, nil
	}, c.passed)
	if err != nil {
		return nil, fmt.Errorf("fairlock: list locks: %w", Explain(ctx, c.locks, err, "find"))
	}
	return names, nil
}

// Page implements [Store].
func (c *Collections) Page(ctx context.Context, after string, limit int) ([]View, error) {
	f := bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}}
	views, err := ReadSorted(ctx, c.locks, f, bson.D{{Key: "last", Value: 0}}, limit, func(raw bson.Raw) (View, error) {
		v, err := decodeView(raw)
		if name, ok := raw.Lookup("_id").StringValueOK(); ok && err != nil {
			return View{Name: name, Malformed: err}, nil
		}
		return v, err
	}, c.passed)
	if err != nil {
		return nil, fmt.Errorf("fairlock: list locks: %w", Explain(ctx, c.locks, err, "find"))
	}
	return views, nil
}

// Collect implements [Store]. The day is the server's, and the condition is in the delete itself, so a document that somebody
// came back to is left alone.
func (c *Collections) Collect(ctx context.Context) error {
	old := op("$lt", "$idleSince", op("$subtract", "$$NOW", idleDays.Milliseconds()))
	_, err := c.locks.DeleteMany(ctx, bson.D{
		{Key: "idleSince", Value: bson.D{{Key: "$type", Value: "date"}}}, {Key: "$expr", Value: old},
	})
	return Explain(ctx, c.locks, err, "remove")
}
