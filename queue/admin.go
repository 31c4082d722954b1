package queue

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// What operators change in a lock document, and what they leave in it. Every call may be repeated.

// mostAudit is how many forced unlocks a lock document remembers, the newest ones.
const mostAudit = 16

// Request asks those who hold a lock to give it back.
type Request struct {
	N    int64     `bson:"n"`    // grows with every request, from 1
	UpTo int64     `bson:"upTo"` // the highest number that was admitted then: those that come after are not meant
	By   string    `bson:"by"`
	At   time.Time `bson:"at"`
}

// Forced is the entry that an unlocking by force leaves.
type Forced struct {
	Token   int64     `bson:"token"`
	Session string    `bson:"session"`
	By      string    `bson:"by"`
	Reason  string    `bson:"reason"`
	At      time.Time `bson:"at"` // of the server; set by Force
}

// SetPermits implements [Store].
func (c *Collections) SetPermits(ctx context.Context, name string, permits int64) error {
	raw, err := c.locks.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: name}}, c.permitsPipeline(permits),
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).SetProjection(bson.D{
			{Key: "v", Value: 1}, {Key: "kind", Value: 1}, {Key: "permits", Value: 1}, {Key: "managed", Value: 1}, {Key: "issued", Value: 1},
			{Key: "settled", Value: 1}, {Key: "frontier", Value: 1},
		})).Raw()
	if err != nil {
		return c.blame(ctx, name, wrap(name, Explain(ctx, c.locks, err, "find", "update", "insert")))
	}
	v, err := decodeView(raw)
	if err != nil {
		return err
	}
	if want := (Shape{KindSemaphore, permits}); v.Kind != want.Kind {
		return &MismatchError{name, want, v.Shape()}
	}
	return nil
}

// permitsPipeline is Reference.SetPermits: it makes the document if it is missing, and changes the permits of a semaphore. It always changes
// the document, so its acknowledgement is proof.
func (c *Collections) permitsPipeline(permits int64) mongo.Pipeline {
	is := func(yes, no any) doc {
		return cond(op("$and", op("$eq", "$kind", string(KindSemaphore)), op("$lte", "$v", int32(SchemaVersion))), yes, no)
	}
	// With fewer permits the numbers that the frontier promised and nobody has yet are issued to nobody and settled: the frontier cannot go down,
	// since there may be processes that know it.
	unused := cond("$unused", bson.A{doc{to("lo", op("$add", "$issued", int64(1))), to("hi", "$frontier")}}, bson.A{})
	p := append(c.makePipeline(Shape{KindSemaphore, permits}), set(
		to("was", "$frontier"),
		to("unused", is(op("$and", op("$gt", "$permits", permits), op("$gt", "$frontier", "$issued")), false)),
		to("permits", is(permits, "$permits")),
		to("managed", is(true, "$$REMOVE")),
	))
	return append(append(p, absorbPipeline(unused)...),
		set(to("issued", cond("$unused", "$frontier", "$issued")), to("frontier", is(op("$max", "$frontier", frontierExpr()), "$frontier"))),
		set(
			to("calls", is(op("$add", "$calls", int64(1)), "$calls")),
			to("calledAt", is("$$NOW", op("$ifNull", "$calledAt", "$$REMOVE"))),
			to("told", is(tellExpr(), op("$ifNull", "$told", "$$REMOVE"))),
			to("idleSince", is("$$REMOVE", op("$ifNull", "$idleSince", "$$REMOVE"))),
			to("was", "$$REMOVE"),
			to("unused", "$$REMOVE"),
		),
	)
}

// RequestRelease implements [Store].
func (c *Collections) RequestRelease(ctx context.Context, name, by string) (bool, error) {
	f := bson.D{{Key: "_id", Value: name}, {Key: "$expr", Value: op("$lt", "$settled", "$issued")}}
	request := doc{
		to("n", op("$add", op("$ifNull", "$request.n", int64(0)), int64(1))),
		to("upTo", op("$min", "$frontier", "$issued")),
		to("by", literal(by)),
		to("at", "$$NOW"),
	}
	res, err := c.locks.UpdateOne(ctx, f, mongo.Pipeline{set(to("request", request))})
	if err != nil {
		return false, c.blame(ctx, name, wrap(name, Explain(ctx, c.locks, err, "update")))
	}
	return res.MatchedCount == 1, nil
}

// Force implements [Store]. That the numbers are admitted is a condition of the write itself: settled and frontier only grow, so whoever is
// admitted stays so until settled, and what waits cannot be taken for what holds.
func (c *Collections) Force(ctx context.Context, name string, passed int64, r Range, f Forced) (bool, error) {
	all := Range{r.Lo - passed, r.Hi}
	filter := append(bson.D{
		{Key: "_id", Value: name},
		{Key: "issued", Value: bson.D{{Key: "$gte", Value: r.Hi}}},
		{Key: "$or", Value: bson.A{
			bson.D{{Key: "frontier", Value: bson.D{{Key: "$gte", Value: r.Hi}}}},
			// All before it is settled or given up; it fits, unless there are fewer permits by now than it wants.
			bson.D{{Key: "settled", Value: bson.D{{Key: "$gte", Value: all.Lo - 1}}}, {Key: "permits", Value: bson.D{{Key: "$gte", Value: r.Units()}}}},
		}},
	}, notSettled(r)...)
	entry := doc{
		to("token", f.Token), to("session", literal(f.Session)), to("by", literal(f.By)),
		to("reason", literal(f.Reason)), to("at", "$$NOW"),
	}
	audit := op("$slice", op("$concatArrays", op("$ifNull", "$audit", bson.A{}), bson.A{entry}), int32(-mostAudit))
	// calls, so that the event comes to all who listen, though perhaps it admits nobody.
	p := append(settlePipeline([]Range{all}, 0), set(
		to("calls", op("$add", "$calls", int64(1))),
		to("told", tellExpr()),
		to("forces", op("$add", op("$ifNull", "$forces", int64(0)), int64(1))),
		to("forced", f.Token),
		to("audit", audit),
	))
	res, err := c.locks.UpdateOne(ctx, filter, p)
	if err != nil {
		return false, c.blame(ctx, name, wrap(name, Explain(ctx, c.locks, err, "update")))
	}
	return res.MatchedCount == 1, nil
}

func literal(s string) doc { return doc{{Key: "$literal", Value: s}} }
