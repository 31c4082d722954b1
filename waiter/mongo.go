package waiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/queue"
)

// Mongo is the [Source] on the locks collection.
type Mongo struct{ Queue *queue.Collections }

var _ Source = Mongo{}

// Views implements [Source].
func (m Mongo) Views(ctx context.Context, names []string) ([]queue.View, error) {
	return m.Queue.Views(ctx, names)
}

// Begin implements [Source]: any command's operation time, in a causally consistent session.
func (m Mongo) Begin(ctx context.Context) (Opening, error) {
	coll := m.Queue.Locks()
	sess, err := coll.Database().Client().StartSession(options.Session().SetCausalConsistency(true))
	if err != nil {
		return nil, fmt.Errorf("fairlock: open change stream: %w", err)
	}
	err = coll.Database().RunCommand(mongo.NewSessionContext(ctx, sess), bson.D{{Key: "ping", Value: 1}}).Err()
	if err == nil && sess.OperationTime() == nil {
		err = errors.New("the server gives no operation time")
	}
	if err != nil {
		sess.EndSession(ctx)
		return nil, fmt.Errorf("fairlock: open change stream: %w", err)
	}
	return &mongoOpening{queue: m.Queue, sess: sess, at: *sess.OperationTime()}, nil
}

type mongoOpening struct {
	queue *queue.Collections
	sess  *mongo.Session
	at    bson.Timestamp
}

// Views reads in the session, so at a cluster time no earlier than at.
func (o *mongoOpening) Views(ctx context.Context, names []string) ([]queue.View, error) {
	return o.queue.Views(mongo.NewSessionContext(ctx, o.sess), names)
}

// admissions lets through the changes that admit somebody who was waiting, and what takes a document away. The server logs a
// replacement instead of an update when the difference would be larger than the document, which happens with
// documents as small as these. Only what a waiter needs is sent, so that no document can make an event too large.
var admissions = mongo.Pipeline{
	{{Key: "$match", Value: bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: "operationType", Value: "update"}, {Key: "updateDescription.updatedFields.calls", Value: bson.D{{Key: "$exists", Value: true}}}},
		bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: bson.A{"replace", "delete"}}}}},
	}}}}},
	{{Key: "$project", Value: bson.D{
		{Key: "operationType", Value: 1},
		{Key: "documentKey", Value: 1},
		{Key: "updateDescription.updatedFields.settled", Value: 1},
		{Key: "updateDescription.updatedFields.frontier", Value: 1},
		{Key: "updateDescription.updatedFields.reached", Value: 1},
		{Key: "updateDescription.updatedFields.told", Value: 1},
		{Key: "updateDescription.updatedFields.permits", Value: 1},
		{Key: "updateDescription.updatedFields.forces", Value: 1},
		{Key: "updateDescription.updatedFields.forced", Value: 1},
		{Key: "fullDocument.settled", Value: 1},
		{Key: "fullDocument.frontier", Value: 1},
		{Key: "fullDocument.reached", Value: 1},
		{Key: "fullDocument.forces", Value: 1},
		{Key: "fullDocument.forced", Value: 1},
	}}},
}

func (o *mongoOpening) Open(ctx context.Context, await time.Duration, names []string) (Stream, error) {
	pipeline := admissions
	if names != nil {
		of := bson.D{{Key: "$match", Value: bson.D{{Key: "documentKey._id", Value: bson.D{{Key: "$in", Value: names}}}}}}
		pipeline = append(mongo.Pipeline{of}, admissions...)
	}
	late, cancel := cancelledLater(ctx, killLimit)
	defer cancel()
	cs, err := o.queue.Locks().Watch(late, pipeline, options.ChangeStream().
		SetStartAtOperationTime(&o.at).SetMaxAwaitTime(await))
	if err != nil {
		return nil, fmt.Errorf("fairlock: open change stream: %w", streamError(ctx, o.queue.Locks(), err))
	}
	return &mongoStream{cs: cs, locks: o.queue.Locks(), id: cs.ID()}, nil
}

// cancelledLater is ctx, but for its cancellation, which comes d later: the server makes a cursor for a call that was cancelled on its way, and
// nobody learns of it to end it.
func cancelledLater(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	var late context.Context
	var cancel context.CancelFunc
	if deadline, ok := ctx.Deadline(); ok {
		late, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline)
	} else {
		late, cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return late, func() { stop(); cancel() }
}

func streamError(ctx context.Context, locks *mongo.Collection, err error) error {
	return queue.Explain(ctx, locks, err, "find", "changeStream")
}

func (o *mongoOpening) End() { o.sess.EndSession(context.Background()) }

type mongoStream struct {
	cs        *mongo.ChangeStream
	locks     *mongo.Collection
	id        int64 // of the cursor, as of the last call that did not fail
	cancelled bool  // the last call failed because its context was cancelled
}

var errStreamClosed = errors.New("fairlock: the server closed the change stream (collection dropped or renamed)")

// Next implements [Stream]. TryNext returns after the await time with nothing and leaves the stream alive; Next would not
// survive its context, nor a timeout set on the user's client. An event that cannot be read is passed over: the
// re-check covers what it said.
func (s *mongoStream) Next(ctx context.Context) ([]Event, error) {
	var events []Event
	for {
		if !s.cs.TryNext(ctx) {
			if err := s.cs.Err(); err != nil {
				s.cancelled = errors.Is(ctx.Err(), context.Canceled)
				return nil, fmt.Errorf("fairlock: change stream: %w", streamError(ctx, s.locks, err))
			}
			if s.id = s.cs.ID(); s.id == 0 {
				return nil, errStreamClosed
			}
			return events, nil
		}
		s.id = s.cs.ID()
		if e, ok := decodeEvent(s.cs.Current); ok {
			events = append(events, e)
		}
		if s.cs.RemainingBatchLength() == 0 {
			return events, nil
		}
	}
}

// decodeEvent reads an event of a document with the form of a lock's; ok is false of any other.
func decodeEvent(raw bson.Raw) (e Event, ok bool) {
	if raw.Validate() != nil { // a lookup in broken bytes can panic
		return Event{}, false
	}
	op, _ := raw.Lookup("operationType").StringValueOK()
	if e.Name, ok = raw.Lookup("documentKey", "_id").StringValueOK(); !ok {
		return Event{}, false
	}
	var of []string
	switch op {
	case "delete":
		e.Deleted = true
		return e, true
	case "update":
		of = []string{"updateDescription", "updatedFields"}
	case "replace":
		of = []string{"fullDocument"}
	default:
		return Event{}, false
	}
	field := func(name string) (int64, error) {
		v, err := raw.LookupErr(append(of[:len(of):len(of)], name)...)
		if err != nil {
			return -1, nil
		}
		n, ok := queue.Integer(v)
		if !ok || n < 0 || n > queue.MostNumber {
			return 0, queue.ErrMalformed
		}
		return n, nil
	}
	var errs [6]error
	e.Settled, errs[0] = field("settled")
	e.Frontier, errs[1] = field("frontier")
	e.Reached, errs[2] = field("reached")
	e.Forced, errs[3] = field("forced")
	e.Forces, errs[4] = field("forces")
	e.Permits, errs[5] = field("permits")
	e.Reached, e.Forced, e.Forces = max(e.Reached, 0), max(e.Forced, 0), max(e.Forces, 0)
	e.Permits = max(e.Permits, 0)
	if errors.Join(errs[:]...) != nil {
		return Event{}, false
	}
	if e.Settled < 0 {
		// It has not changed. Without it the event does not show whether it is of the document that the waiter has a number of, or of one
		// that was made anew with higher numbers, of which the frontier would admit all old ones.
		text, _ := raw.Lookup(append(of[:len(of):len(of)], "told")...).StringValueOK()
		if e.Settled, e.Frontier, ok = queue.Told(text); !ok {
			return Event{}, false
		}
	}
	if e.Frontier <= e.Settled {
		return Event{}, false
	}
	return e, true
}

// killLimit bounds the opening of a stream that nobody wants any more, and the end of a cursor whose stream was cancelled. The server would
// end a cursor by itself, after ten minutes.
const killLimit = time.Second

// Close implements [Stream]. When a call's context was cancelled the driver has given the cursor up: it tried to end it with that same
// context, which is dead, and knows it no more. The server has it still if its answer was on the way.
func (s *mongoStream) Close(ctx context.Context) {
	_ = s.cs.Close(ctx)
	if s.cancelled && s.id != 0 {
		ctx, cancel := context.WithTimeout(ctx, killLimit)
		defer cancel()
		_ = s.locks.Database().RunCommand(ctx, bson.D{
			{Key: "killCursors", Value: s.locks.Name()}, {Key: "cursors", Value: bson.A{s.id}},
		}).Err()
	}
}
