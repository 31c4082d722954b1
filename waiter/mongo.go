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
		{Key: "fullDocument.settled", Value: 1},
		{Key: "fullDocument.frontier", Value: 1},
		{Key: "fullDocument.reached", Value: 1},
	}}},
}

func (o *mongoOpening) Open(ctx context.Context, await time.Duration, names []string) (Stream, error) {
	pipeline := admissions
	if names != nil {
		of := bson.D{{Key: "$match", Value: bson.D{{Key: "documentKey._id", Value: bson.D{{Key: "$in", Value: names}}}}}}
		pipeline = append(mongo.Pipeline{of}, admissions...)
	}
	cs, err := o.queue.Locks().Watch(ctx, pipeline, options.ChangeStream().
		SetStartAtOperationTime(&o.at).SetMaxAwaitTime(await))
	if err != nil {
		return nil, fmt.Errorf("fairlock: open change stream: %w", err)
	}
	return &mongoStream{cs}, nil
}

func (o *mongoOpening) End() { o.sess.EndSession(context.Background()) }

type mongoStream struct{ cs *mongo.ChangeStream }

type rawEvent struct {
	Op  string `bson:"operationType"`
	Key struct {
		ID bson.RawValue `bson:"_id"`
	} `bson:"documentKey"`
	Update struct {
		Fields fields `bson:"updatedFields"`
	} `bson:"updateDescription"`
	Full fields `bson:"fullDocument"`
}

type fields struct {
	Settled  *int64 `bson:"settled"`
	Frontier *int64 `bson:"frontier"`
	Reached  int64  `bson:"reached"`
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
				return nil, fmt.Errorf("fairlock: change stream: %w", err)
			}
			if s.cs.ID() == 0 {
				return nil, errStreamClosed
			}
			return events, nil
		}
		var raw rawEvent
		if s.cs.Decode(&raw) == nil {
			if e, ok := raw.event(); ok {
				events = append(events, e)
			}
		}
		if s.cs.RemainingBatchLength() == 0 {
			return events, nil
		}
	}
}

func (r *rawEvent) event() (Event, bool) {
	name, ok := r.Key.ID.StringValueOK()
	if !ok {
		return Event{}, false
	}
	f := r.Update.Fields
	switch r.Op {
	case "delete":
		return Event{Name: name, Deleted: true}, true
	case "replace":
		f = r.Full
	}
	if f.Frontier == nil {
		return Event{}, false
	}
	e := Event{Name: name, Settled: -1, Frontier: *f.Frontier, Reached: f.Reached}
	if f.Settled != nil {
		e.Settled = *f.Settled
	}
	return e, true
}

// Close implements [Stream].
func (s *mongoStream) Close(ctx context.Context) { _ = s.cs.Close(ctx) }
