package faults

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/fairlock/fairlock/internal/replset"
)

// killCursor ends all streams, as an operator does, right before a lock is given back that somebody waits for.
func killCursor() Row {
	return Row{
		Name:  "kill-cursor",
		About: "another client kills the cursors of all change streams (killCursors, killOp) right before a lock is given back",
		Crew:  usual(0),
		Bound: 3 * time.Second,
		Fault: func(ctx context.Context, r *Run) error {
			return r.Rounds(ctx, 200*time.Millisecond, time.Second, func(i int) error {
				procs := r.Crew.Pick(2)
				if err := r.held(ctx, extraLock(i), procs); err != nil {
					return err
				}
				r.Harm()
				n, err := r.killStreams(ctx, i%2 == 0)
				if err != nil {
					return err
				}
				if n > 0 { // at this moment all may doze
					r.Mark(Mark{What: "streams killed", Lock: extraLock(i)})
				}
				if err := procs[0].Resume(ctx, extraLock(i)); err != nil {
					return err
				}
				return r.Recovered(ctx)
			})
		},
		Expect: func(r *Run) []string {
			broken := NoLosses(r)
			if s, _ := r.Crew.stats(); s.StreamsFailed == 0 {
				broken = append(broken, "no stream was killed, or no process has noticed")
			}
			return broken
		},
	}
}

// killStreams kills the cursors of all streams, or the operations that wait on them, and returns how many.
func (r *Run) killStreams(ctx context.Context, cursors bool) (n int, err error) {
	ops, err := r.cursors(ctx)
	if err != nil {
		return 0, err
	}
	admin := r.DB.Client().Database("admin")
	for _, op := range ops {
		id, isCursor := op.Lookup("cursor", "cursorId").Int64OK()
		running, isOp := op.Lookup("opid").AsInt64OK()
		switch {
		case !cursors && isOp:
			err = admin.RunCommand(ctx, bson.D{{Key: "killOp", Value: 1}, {Key: "op", Value: running}}).Err()
		case isCursor:
			err = r.DB.RunCommand(ctx, bson.D{{Key: "killCursors", Value: prefix + "locks"}, {Key: "cursors", Value: bson.A{id}}}).Err()
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// historyLost stops a process that waits, rolls the whole log over, and lets it go on: its stream can neither continue nor be
// resumed. It must read afresh, and not hammer the server.
func historyLost() Row {
	const (
		oplogMB = 8
		ttl     = 20 * time.Second
	)
	return Row{
		Name:  "history-lost",
		About: "a process that waits is stopped while the whole oplog is written over, and goes on",
		// The log is truncated up to the newest checkpoint only; this makes one each second.
		Set:   replset.Options{OplogMB: oplogMB, Args: []string{"--syncdelay", "1"}},
		Crew:  usual(ttl),
		Bound: 5 * time.Second,
		Short: 10 * time.Second,
		Fault: func(ctx context.Context, r *Run) error {
			lost := 0
			err := r.Rounds(ctx, 200*time.Millisecond, time.Second, func(i int) error {
				procs := r.Crew.Pick(2)
				if err := r.held(ctx, extraLock(i), procs); err != nil {
					return err
				}
				was, err := procs[1].Stats(ctx)
				if err != nil {
					return err
				}
				begin := r.Now()
				r.Harm()
				if _, err := procs[1].Pause(); err != nil {
					return err
				}
				if err := r.rollOver(ctx, begin); err != nil {
					return err
				}
				on, err := procs[1].Continue()
				if err != nil {
					return err
				}
				if err := procs[0].Resume(ctx, extraLock(i)); err != nil {
					return err
				}
				r.Mark(Mark{What: "history lost", Lock: extraLock(i), From: on, In: begin})
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				now, err := procs[1].Stats(ctx)
				if err != nil {
					return err
				}
				failed := now.StreamsFailed - was.StreamsFailed
				if failed > 0 {
					lost++
				}
				// The first comes at once, then at most one a second.
				if most := 2 + int64(r.Now().Sub(on)/time.Second); failed > most {
					r.Violate("streams are reopened at most once a second: %d failed in %v", failed, r.Now().Sub(on))
				}
				return nil
			})
			r.Note("the stream failed in %d rounds", lost)
			if err == nil && lost == 0 {
				err = errors.New("no stream has lost its history")
			}
			return err
		},
		Expect: NoLosses,
	}
}

// rollOver writes noise until the oldest entry of the primary's log is newer than all that was there at begin.
func (r *Run) rollOver(ctx context.Context, begin Instant) error {
	noise := r.DB.Client().Database(r.registerDB()).Collection("noise", options.Collection().SetWriteConcern(writeconcern.Majority()))
	log := r.DB.Client().Database("local").Collection("oplog.rs")
	from := uint32(time.Now().Add(-r.Now().Sub(begin)).Unix() + 1) //nolint:gosec // until 2106
	filler := strings.Repeat("noise ", 40_000)
	for n := 0; ; n++ {
		doc := bson.D{{Key: "n", Value: n}, {Key: "filler", Value: filler}}
		if _, err := noise.InsertOne(ctx, doc); err != nil {
			return err
		}
		var oldest struct {
			TS bson.Timestamp `bson:"ts"`
		}
		if err := log.FindOne(ctx, bson.D{}, options.FindOne().SetSort(bson.D{{Key: "$natural", Value: 1}})).Decode(&oldest); err != nil {
			return err
		}
		if oldest.TS.T > from {
			_, err := noise.DeleteMany(ctx, bson.D{})
			return err
		}
	}
}
