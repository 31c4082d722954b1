package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// TicketID identifies a ticket or tombstone. Sorted by it the tickets of a lock are the queue. A range
// begins at a number that no other range begins at, so the unique _id decides between an owner and a reaper.
type TicketID struct {
	Lock string `bson:"lock"`
	Lo   int64  `bson:"lo"`
}

// Ticket says which session stands behind a range. A tombstone has no session and covers the one number Lo.
type Ticket struct {
	ID      TicketID  `bson:"_id"`
	Hi      int64     `bson:"hi"`
	Session string    `bson:"session,omitempty"`
	Arrival int64     `bson:"arrival"`
	Weight  int64     `bson:"weight"` // units of each waiter in the range
	At      time.Time `bson:"at"`     // server time of the arrival, for people
	Labels  []string  `bson:"labels"` // of the first waiters, for people
	Passed  int64     `bson:"passed"` // numbers up to it are done with inside the owner's process, for people
	Tomb    bool      `bson:"tomb,omitempty"`
}

// MaxLabels is how many labels a ticket keeps.
const MaxLabels = 64

// ErrTombstone: a reaper has written a tombstone where the ticket should be. The range is lost (I3).
var ErrTombstone = errors.New("fairlock: tombstone in place of the ticket")

// Range is the numbers that the ticket covers.
func (t *Ticket) Range() Range { return Range{t.ID.Lo, t.Hi} }

// PutTicket implements [Store]. The session is part of the filter, so that the upsert meets either its own earlier work,
// or nothing, or a tombstone; only the last is a duplicate key. Each attempt changes the document, for the
// acknowledgement of a write that changed nothing would be no proof.
func (c *Collections) PutTicket(ctx context.Context, t Ticket, age time.Duration) error {
	labels := bson.A{}
	for _, l := range t.Labels[:min(len(t.Labels), MaxLabels)] {
		labels = append(labels, doc{{Key: "$literal", Value: l}})
	}
	// Whatever else stands there is made good: the acknowledgement is the proof that there is a ticket, so it must be one.
	valid := func(field, kind string, no any) bson.E {
		return to(field, cond(op("$eq", doc{{Key: "$type", Value: "$" + field}}, kind), "$"+field, no))
	}
	p := mongo.Pipeline{set(
		to("hi", t.Hi), to("arrival", t.Arrival), to("weight", t.Weight), to("labels", labels),
		valid("passed", "long", int64(0)),
		valid("at", "date", op("$subtract", "$$NOW", age.Milliseconds())),
		to("puts", cond(op("$in", doc{{Key: "$type", Value: "$puts"}}, bson.A{"int", "long"}), op("$add", "$puts", int64(1)), int64(1))),
		to("tomb", "$$REMOVE"),
	)}
	mine := bson.D{{Key: "_id", Value: t.ID}, {Key: "session", Value: t.Session}}
	_, err := c.tickets.UpdateOne(ctx, mine, p, options.UpdateOne().SetUpsert(true))
	if !mongo.IsDuplicateKeyError(err) {
		return wrap(t.ID.Lock, Explain(ctx, c.tickets, err, "update", "insert"))
	}
	// A tombstone, or something that is no ticket and keeps it out as well, or an earlier attempt of ours that came in between: only then does the filter match now.
	res, err := c.tickets.UpdateOne(ctx, mine, p)
	if err == nil && res.MatchedCount == 0 {
		return ErrTombstone
	}
	return wrap(t.ID.Lock, err)
}

// MarkPassed implements [Store]. For people only: a lost update is made good by the next.
func (c *Collections) MarkPassed(ctx context.Context, id TicketID, session string, passed int64) error {
	_, err := c.tickets.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "session", Value: session}},
		bson.D{{Key: "$max", Value: bson.D{{Key: "passed", Value: passed}}}})
	return wrap(id.Lock, Explain(ctx, c.tickets, err, "update"))
}

// DropTickets implements [Store]. Not retried by the driver when there are several; a ticket that stays is deleted by
// whoever sees it next.
func (c *Collections) DropTickets(ctx context.Context, ids []TicketID) error {
	if len(ids) == 1 {
		_, err := c.tickets.DeleteOne(ctx, bson.D{{Key: "_id", Value: ids[0]}})
		return Explain(ctx, c.tickets, err, "remove")
	}
	for chunk := range slices.Chunk(ids, 1000) {
		if _, err := c.tickets.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: chunk}}}}); err != nil {
			return Explain(ctx, c.tickets, err, "remove")
		}
	}
	return nil
}

// Bury implements [Store]. A read that shows no ticket may be old, so it cannot settle a number; the tombstone can. It is
// a majority write, refused by a server that is no longer the primary, and it meets the ticket of a range that begins
// at its number as a duplicate key. Ranges that begin before the gap are found by the second read, which comes
// after the tombstones in one causally consistent session, so that it shows every ticket acknowledged in time: those were written
// before the tombstones, for the caller has watched the gap for a full grace.
func (c *Collections) Bury(ctx context.Context, name string, gaps []Range) ([]Range, error) {
	var covered []Range
	err := c.db.Client().UseSession(ctx, func(ctx context.Context) error {
		for _, g := range gaps {
			for lo := g.Lo; lo <= g.Hi; lo += 1000 {
				if err := c.insertTombstones(ctx, name, Range{lo, min(g.Hi, lo+999)}); err != nil {
					return err
				}
			}
		}
		live, dead, err := c.coverage(ctx, name, gaps[len(gaps)-1].Hi)
		if err != nil {
			return err
		}
		for _, g := range gaps {
			for _, unticketed := range Subtract(g, live) {
				for _, open := range Subtract(unticketed, dead) {
					// Neither ticket nor tombstone: this read is older than it should be. Nothing is settled on it.
					return fmt.Errorf("fairlock: lock %q: no tombstone at %v after writing it", name, open)
				}
				covered = append(covered, unticketed)
			}
		}
		return nil
	})
	return covered, err
}

// coverage reads which numbers up to hi have tickets, and which have tombstones. A document that is neither by its form
// but whose _id is that of a number keeps the owner's ticket out as a tombstone does, so it is one.
func (c *Collections) coverage(ctx context.Context, name string, hi int64) (live, dead []Range, err error) {
	cur, err := c.tickets.Find(ctx, ticketsUpTo(name, hi), options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetBatchSize(1000))
	if err != nil {
		return nil, nil, wrap(name, Explain(ctx, c.tickets, err, "find"))
	}
	defer cur.Close(context.WithoutCancel(ctx))
	for cur.Next(ctx) {
		if t, err := decodeTicket(cur.Current); err == nil && !t.Tomb {
			live = append(live, t.Range())
		} else if id, _, ok := ticketAt(cur.Current); ok && id.Lock == name {
			dead = append(dead, Range{id.Lo, id.Lo})
		}
	}
	return live, dead, wrap(name, cur.Err())
}

func (c *Collections) insertTombstones(ctx context.Context, name string, r Range) error {
	docs := make([]any, 0, r.Units())
	for n := r.Lo; n <= r.Hi; n++ {
		docs = append(docs, Ticket{ID: TicketID{name, n}, Hi: n, At: time.Now(), Labels: []string{}, Tomb: true})
	}
	_, err := c.tickets.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
	var bulk mongo.BulkWriteException
	if errors.As(err, &bulk) && bulk.WriteConcernError == nil {
		// Duplicate keys are answers, not failures: a ticket or an earlier tombstone stands there.
		const duplicate = 11000
		if !slices.ContainsFunc(bulk.WriteErrors, func(e mongo.BulkWriteError) bool { return e.Code != duplicate }) {
			return nil
		}
	}
	return wrap(name, Explain(ctx, c.tickets, err, "insert"))
}

// Tickets implements [Store].
func (c *Collections) Tickets(ctx context.Context, name string, hi int64, limit int) ([]Ticket, error) {
	return c.findTickets(ctx, ticketsUpTo(name, hi), limit)
}

// ticketsUpTo has whole documents as bounds, so that the index on _id serves it.
func ticketsUpTo(name string, hi int64) bson.D {
	return bson.D{{Key: "_id", Value: bson.D{
		{Key: "$gte", Value: TicketID{name, math.MinInt64}}, {Key: "$lte", Value: TicketID{name, hi}},
	}}}
}

// TicketsOfSession implements [Store].
func (c *Collections) TicketsOfSession(ctx context.Context, session string, after TicketID, limit int) ([]Ticket, error) {
	return c.findTickets(ctx, bson.D{{Key: "session", Value: session}, {Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}}, limit)
}

// AllTickets implements [Store].
func (c *Collections) AllTickets(ctx context.Context, after TicketID, limit int) ([]Ticket, error) {
	return c.findTickets(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}}, limit)
}

func (c *Collections) findTickets(ctx context.Context, f bson.D, limit int) ([]Ticket, error) {
	tickets, err := ReadSorted(ctx, c.tickets, f, nil, limit, decodeTicket, c.passed)
	if err != nil {
		return nil, fmt.Errorf("fairlock: read tickets: %w", Explain(ctx, c.tickets, err, "find"))
	}
	return tickets, nil
}
