package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/internal/replset"
)

// takenAway is what does not hold when the lock documents are gone, which are the record of who holds.
var takenAway = map[history.Rule]string{
	history.Exclusion: "the record of who holds is gone: the next is granted before the holder has been told",
	history.Order:     "the record of who waits is gone: all queue again",
}

// markAll has recovery measured of each of the callers' locks, since each could be stuck by itself.
func (r *Run) markAll(what string, fresh Fresh) {
	now := r.Now()
	for _, lock := range r.locks() {
		r.Mark(Mark{What: what, Lock: lock, From: now, In: now, Fresh: fresh})
	}
}

// takeAway takes one of the collections away, or all (""), and has recovery measured. When lock documents are gone the history is told.
func (r *Run) takeAway(ctx context.Context, coll, what string, do func() error) error {
	r.Harm()
	from := r.Now()
	if err := do(); err != nil {
		return err
	}
	if coll == "" || coll == "locks" {
		r.Crew.rec.Record(history.Event{Kind: history.Dropped, Sent: from, At: r.Now()})
	}
	r.markAll(what, Sent)
	return r.Recovered(ctx)
}

// dropped drops one of fairlock's collections under load, again and again. Tokens go on rising, which the register proves.
func dropped(coll string) Row {
	row := Row{
		Name:   "drop-" + coll,
		About:  "the collection of " + coll + " is dropped",
		Crew:   usual(shortTTL),
		Bound:  shortTTL + afterDeath,
		Leaves: "what is written while the collection is dropped is of sessions that end",
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, time.Second, 2*time.Second, func(int) error {
				return r.takeAway(ctx, coll, "drop of "+coll, func() error { return r.Coll(coll).Drop(ctx) })
			})
		},
	}
	if coll == "locks" {
		row.Omit, row.Revoked = takenAway, true
	}
	return row
}

func renamed() Row {
	return Row{
		Name:    "rename",
		About:   "the collection of locks, tickets or sessions is renamed",
		Crew:    usual(shortTTL),
		Bound:   shortTTL + afterDeath,
		Leaves:  "what is written while the collection is renamed is of sessions that end",
		Omit:    takenAway,
		Revoked: true,
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, time.Second, 2*time.Second, func(i int) error {
				coll := []string{"locks", "tickets", "sessions"}[i%3]
				from := r.DB.Name() + "." + prefix + coll
				return r.takeAway(ctx, coll, "rename", func() error {
					return r.DB.Client().Database("admin").RunCommand(ctx, bson.D{
						{Key: "renameCollection", Value: from}, {Key: "to", Value: fmt.Sprintf("%s.old%d", from, i)},
					}).Err()
				})
			})
		},
	}
}

func dropDatabase() Row {
	return Row{
		Name:    "drop-database",
		About:   "the database with all three collections is dropped",
		Crew:    usual(shortTTL),
		Bound:   shortTTL + afterDeath,
		Leaves:  "what is written while the database is dropped is of sessions that end",
		Omit:    takenAway,
		Revoked: true,
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, time.Second, 2*time.Second, func(int) error {
				return r.takeAway(ctx, "", "dropDatabase", func() error { return r.DB.Drop(ctx) })
			})
		},
	}
}

// malformed puts documents into the three collections that are not fairlock's by their form, among those that are in use.
func malformed() Row {
	return Row{
		Name:   "malformed",
		About:  "foreign documents of wrong types, without fields, huge, with odd _ids and numbers are put into all three collections",
		Crew:   usual(shortTTL),
		Bound:  shortTTL + afterDeath,
		Leaves: "a foreign document at a number makes its owner queue again",
		Fault: func(ctx context.Context, r *Run) error {
			n := 0
			err := r.Rounds(ctx, 10*time.Millisecond, 200*time.Millisecond, func(int) error {
				r.Harm()
				for _, coll := range []string{"locks", "tickets", "sessions"} {
					docs := make([]any, 100)
					for i := range docs {
						docs[i] = r.oddDocument(coll)
					}
					// Some are refused by the server, or are there already; that is not the point.
					_, err := r.Coll(coll).InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
					var refused mongo.BulkWriteException
					if err != nil && !errors.As(err, &refused) {
						return err
					}
					n += len(docs) - len(refused.WriteErrors)
				}
				r.markAll("malformed documents", Sent)
				return r.Recovered(ctx)
			})
			r.Note("%d foreign documents", n)
			return err
		},
	}
}

// oddDocument is a document with the field names of a collection and values that make no sense.
func (r *Run) oddDocument(coll string) bson.D {
	names := map[string][]string{
		"locks":    {"kind", "permits", "issued", "settled", "done", "frontier", "arrivals", "reached", "calls", "grace", "last", "idleSince", "v"},
		"tickets":  {"hi", "session", "arrival", "weight", "at", "labels", "passed", "puts", "tomb"},
		"sessions": {"beat", "ttl", "expiresAt", "ended", "endedAt", "cleared", "startedAt", "host", "pid", "label"},
	}[coll]
	doc := bson.D{{Key: "_id", Value: r.oddID(coll)}, {Key: foreign, Value: true}}
	for _, name := range names {
		if r.Rand.IntN(4) > 0 {
			doc = append(doc, bson.E{Key: name, Value: r.oddValue(0)})
		}
	}
	return doc
}

// oddID is an _id that no document of fairlock's has: none that could be a live lock's, ticket's or session's.
func (r *Run) oddID(coll string) any {
	lock := r.locks()[r.Rand.IntN(r.Row.Crew.Locks)]
	number := []any{int64(-1), int64(-1 << 63), int64(1<<63 - 1), int64(1 << 62), int64(0), 1.5, "7", nil, bson.A{}, r.Rand.Int64()}
	switch r.Rand.IntN(5) {
	case 0:
		return r.oddValue(0)
	case 1:
		return fmt.Sprintf("%s-%d", foreign, r.Rand.Int64())
	case 2:
		return "\xff\xfe" + foreign + fmt.Sprint(r.Rand.Int64()) // no UTF-8
	case 3:
		return bson.D{{Key: "lock", Value: r.oddValue(0)}, {Key: "lo", Value: number[r.Rand.IntN(len(number))]}, {Key: "n", Value: r.Rand.Int64()}}
	}
	if coll != "tickets" {
		return bson.D{{Key: foreign, Value: r.Rand.Int64()}}
	}
	return bson.D{{Key: "lock", Value: lock}, {Key: "lo", Value: number[r.Rand.IntN(len(number))]}}
}

func (r *Run) oddValue(depth int) any {
	values := []any{
		nil, true, int32(-1), int64(-1 << 63), int64(1<<63 - 1), int64(0), 0.5, -1e308, "", "x", strings.Repeat("x", 100_000), "\xff\xfe",
		bson.NewDateTimeFromTime(time.Unix(-1, 0)), bson.Timestamp{T: 1}, bson.NewObjectID(), bson.MinKey{}, bson.MaxKey{},
		bson.Binary{Data: []byte{1, 2, 3}}, bson.D{}, bson.A{}, bson.NewDecimal128(1<<62, 1), r.Rand.Int64(),
	}
	if depth < 2 && r.Rand.IntN(5) == 0 {
		return bson.A{r.oddValue(depth + 1), bson.D{{Key: "lo", Value: r.oddValue(depth + 1)}, {Key: "hi", Value: r.oddValue(depth + 1)}}}
	}
	return values[r.Rand.IntN(len(values))]
}

// neighbour puts the largest document that there can be beside fairlock's, changes it and deletes it.
func neighbour() Row {
	return Row{
		Name:  "neighbour-16mb",
		About: "a document of nearly 16 MB is put into each collection, changed, and deleted",
		Set:   replset.Options{CacheMB: 1024}, // with less the server refuses such documents
		Crew:  usual(0),
		Bound: 10 * time.Second,
		Fault: func(ctx context.Context, r *Run) error {
			big := strings.Repeat("x", 16<<20-200)
			return r.Rounds(ctx, 200*time.Millisecond, time.Second, func(i int) error {
				r.Harm()
				for _, coll := range []string{"locks", "tickets", "sessions"} {
					id := fmt.Sprintf("%s-%d", foreign, i)
					c := r.Coll(coll)
					if _, err := c.InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: foreign, Value: big}}); err != nil {
						return err
					}
					if _, err := c.UpdateByID(ctx, id, bson.D{{Key: "$set", Value: bson.D{{Key: foreign, Value: "y" + big[1:]}}}}); err != nil {
						return err
					}
					r.markAll("16 MB neighbour in "+coll, Sent)
					if err := r.Recovered(ctx); err != nil {
						return err
					}
					if _, err := c.DeleteOne(ctx, bson.D{{Key: "_id", Value: id}}); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
