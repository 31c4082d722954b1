package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Arrival is the numbers (Lo, Hi] that one arrival was issued. Arrivals are kept in the order in which they were committed.
type Arrival struct {
	Lo int64 `json:"lo"`
	Hi int64 `json:"hi"`
}

// observer writes down the order of arrivals, from the oplog and by nothing else.
type observer struct {
	coll   *mongo.Collection
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex // guards all below
	arrivals []Arrival
	issued   int64         // after the newest event; 0 before the first
	moved    chan struct{} // closed and replaced at each event
	err      error         // why it ended
}

// change is a change event, projected to what counts.
type change struct {
	Op      string `bson:"operationType"`
	Updated struct {
		Fields struct {
			Issued *int64 `bson:"issued"`
		} `bson:"updatedFields"`
	} `bson:"updateDescription"`
	Full struct {
		Issued  *int64 `bson:"issued"`
		Settled *int64 `bson:"settled"`
	} `bson:"fullDocument"`
}

// observe starts an observer of one lock. It sees every commit after the call: the stream begins at the time of a command
// that was answered before, and what is written later has a later time.
func observe(ctx context.Context, locks *mongo.Collection, name string) (*observer, error) {
	var pong struct {
		Time bson.Timestamp `bson:"operationTime"`
	}
	if err := locks.Database().RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Decode(&pong); err != nil {
		return nil, err
	}
	if pong.Time.IsZero() {
		return nil, errors.New("the deployment has no change streams, so there is no order of arrivals to compare with: " +
			"the demo needs a replica set or a sharded cluster")
	}
	o := &observer{coll: locks, done: make(chan struct{}), moved: make(chan struct{})}
	pipeline := mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "documentKey._id", Value: name}}}},
		{{Key: "$project", Value: bson.D{
			{Key: "operationType", Value: 1}, {Key: "updateDescription.updatedFields.issued", Value: 1},
			{Key: "fullDocument.issued", Value: 1}, {Key: "fullDocument.settled", Value: 1},
		}}},
	}
	opts := options.ChangeStream().SetStartAtOperationTime(&pong.Time).SetMaxAwaitTime(time.Second)
	stream, err := locks.Watch(ctx, pipeline, opts)
	if err != nil {
		return nil, fmt.Errorf("watch arrivals: %w", err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o.cancel = cancel
	go o.run(run, stream, pipeline)
	return o, nil
}

// run reads until stop. The driver resumes the stream after most failures; where it does not, run opens it
// anew after the last event that was seen, so that none is missed or seen twice.
func (o *observer) run(ctx context.Context, stream *mongo.ChangeStream, pipeline mongo.Pipeline) {
	defer close(o.done)
	for {
		for stream.Next(ctx) {
			var c change
			if err := stream.Decode(&c); err != nil {
				o.fail(err)
				break
			}
			o.see(c)
		}
		err, token := stream.Err(), stream.ResumeToken()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_ = stream.Close(end)
		cancel()
		for tries := 0; ; tries++ {
			if ctx.Err() != nil || o.failed() != nil {
				return
			}
			if tries == 10 {
				o.fail(err)
				return
			}
			opts := options.ChangeStream().SetResumeAfter(token).SetMaxAwaitTime(time.Second)
			if stream, err = o.coll.Watch(ctx, pipeline, opts); err == nil {
				break
			}
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// see takes in one event. The server logs an update that would be larger than the document as a replace, so
// that is an arrival too, when issued has moved.
func (o *observer) see(c change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lo, issued := o.issued, c.Updated.Fields.Issued
	switch c.Op {
	case "insert":
		issued = c.Full.Issued
		if c.Full.Settled != nil {
			lo = *c.Full.Settled // of a new document all numbers up to its base are settled
		}
	case "replace":
		issued = c.Full.Issued
	}
	if issued != nil && *issued != o.issued {
		o.arrivals = append(o.arrivals, Arrival{lo, *issued})
		o.issued = *issued
	}
	close(o.moved)
	o.moved = make(chan struct{})
}

func (o *observer) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = fmt.Errorf("the observer lost its change stream: %w", err)
	}
	close(o.moved)
	o.moved = make(chan struct{})
}

func (o *observer) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// upTo returns the arrivals when the one that was issued the number issued has been seen.
func (o *observer) upTo(ctx context.Context, issued int64) ([]Arrival, error) {
	for {
		o.mu.Lock()
		all, at, moved, err := o.arrivals, o.issued, o.moved, o.err
		o.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case at == issued:
			return all, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, fmt.Errorf("the observer has seen numbers up to %d of %d: %w", at, issued, context.Cause(ctx))
		}
	}
}

// stop ends the stream. It may be called again, and on nil.
func (o *observer) stop() {
	if o == nil {
		return
	}
	o.cancel()
	<-o.done
}
