package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock"
)

// quietLimit bounds the wait for the database to be quiet, beyond three leases.
const quietLimit = 30 * time.Second

// quiet waits for I8: no ticket, no tombstone, no live session, all lock documents idle and without ranges. What the dead have left
// is cleared by whoever comes next, which is this process.
func (r *Run) quiet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*r.ttl()+quietLimit)
	defer cancel()
	stats, ended := r.Crew.stats()
	if ended > 0 || r.Row.Leaves != "" {
		if err := r.sweepAway(ctx); err != nil {
			r.Violate("quiet (I8): the dead are not cleared: %v", err)
		}
	}
	left, err := r.left(ctx, "", "")
	if err != nil || len(left) > 0 {
		r.Violate("quiet (I8): left in the database: %v %v", left, err)
	}
	if r.Row.Strays != "" || r.Row.Deploy != nil {
		return
	}
	// Streams that broke and processes that were killed could not close their cursors. The server takes a moment to end those that
	// were closed.
	var open []bson.Raw
	if r.until(ctx, "cursors to be closed", func() bool {
		open, err = r.cursors(ctx)
		return err == nil && len(open) <= int(stats.StreamsFailed)+ended
	}) != nil {
		r.Violate("cursors: %d are open, %d streams have failed and %d processes were killed: %v %v", len(open), stats.StreamsFailed, ended, err, open)
	}
}

// sweepAway clears what the dead have left.
func (r *Run) sweepAway(ctx context.Context) error {
	m, err := fairlock.New(ctx, r.DB, &fairlock.Config{TTL: r.Row.Crew.TTL})
	if err != nil {
		return err
	}
	err = m.Do(ctx, "sweep away", func(context.Context) error { return nil })
	if err == nil {
		var left []string
		err = r.until(ctx, "the dead to be cleared", func() bool {
			left, err = r.left(ctx, m.Session(), "\tsweep")
			return err == nil && len(left) == 0
		})
		if err != nil {
			err = fmt.Errorf("%w; left: %v", err, left)
		}
	}
	return errors.Join(err, m.Close(context.WithoutCancel(ctx)))
}

// foreign is the beginning of the ids of documents that rows put into fairlock's collections: nobody has to clear those.
const foreign = "foreign"

// left describes what is left in fairlock's collections, but for one session and one lock.
func (r *Run) left(ctx context.Context, session, lock string) ([]string, error) {
	var all []string
	for _, q := range []struct {
		coll   string
		filter bson.D
	}{
		{"sessions", bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: session}}}, {Key: "ended", Value: bson.D{{Key: "$ne", Value: true}}}}},
		{"tickets", bson.D{{Key: "_id.lock", Value: bson.D{{Key: "$ne", Value: lock}}}}},
		{"locks", bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: lock}}}, {Key: "$or", Value: bson.A{
			bson.D{{Key: "idleSince", Value: bson.D{{Key: "$exists", Value: false}}}, {Key: "managed", Value: bson.D{{Key: "$ne", Value: true}}}}, // what was decided by hand stays
			bson.D{{Key: "done.0", Value: bson.D{{Key: "$exists", Value: true}}}},
			bson.D{{Key: "$expr", Value: bson.D{{Key: "$ne", Value: bson.A{"$issued", "$settled"}}}}},
		}}}},
	} {
		cur, err := r.Coll(q.coll).Find(ctx, append(q.filter, bson.E{Key: foreign, Value: bson.D{{Key: "$exists", Value: false}}}))
		if err != nil {
			return nil, err
		}
		var docs []bson.Raw
		if err := cur.All(ctx, &docs); err != nil {
			return nil, err
		}
		for _, d := range docs {
			text := d.String()
			all = append(all, q.coll+": "+text[:min(len(text), 600)])
		}
	}
	slices.Sort(all)
	return all[:min(len(all), 10)], nil
}

// cursors are the cursors that the primary has open on the run's locks.
func (r *Run) cursors(ctx context.Context) ([]bson.Raw, error) {
	cur, err := r.DB.Client().Database("admin").Aggregate(ctx, mongo.Pipeline{
		{{Key: "$currentOp", Value: bson.D{{Key: "allUsers", Value: true}, {Key: "idleCursors", Value: true}}}},
		{{Key: "$match", Value: bson.D{{Key: "ns", Value: r.DB.Name() + "." + prefix + "locks"}}}},
	})
	if err != nil {
		return nil, err
	}
	var ops []bson.Raw
	return ops, cur.All(ctx, &ops)
}
