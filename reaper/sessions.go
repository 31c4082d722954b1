package reaper

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

// Session is the lease of one process.
type Session struct {
	ID        string     `bson:"_id"` // ULID
	Beat      int64      `bson:"beat"`
	TTLMS     int64      `bson:"ttl"`
	ExpiresAt time.Time  `bson:"expiresAt"` // server time; for people, and one half of the evidence for an end
	StartedAt time.Time  `bson:"startedAt"`
	Host      string     `bson:"host"`
	PID       int        `bson:"pid"`
	Label     string     `bson:"label"`
	Ended     bool       `bson:"ended,omitempty"` // set once, never unset
	EndedAt   *time.Time `bson:"endedAt,omitempty"`
	Cleared   bool       `bson:"cleared,omitempty"` // its tickets have been cleared
}

// TTL is the session's lease.
func (s *Session) TTL() time.Duration { return time.Duration(s.TTLMS) * time.Millisecond }

// ErrEnded: the session was ended, and stays so.
var ErrEnded = errors.New("fairlock: session ended")

// Sessions is every database call on session documents. All may fail with an unknown outcome and may be repeated.
type Sessions interface {
	// Begin creates the session, or confirms it. ErrEnded when it was ended meanwhile.
	Begin(ctx context.Context, s Session) error
	// Renew prolongs a session that has not been ended, and is a real change when it succeeds, so its acknowledgement is
	// proof. ErrEnded otherwise.
	Renew(ctx context.Context, id string, ttl time.Duration) error
	// End ends a session whose beat is still beat and whose lease is over by the server's clock too, and reports whether
	// it did.
	End(ctx context.Context, id string, beat int64) (bool, error)
	// Bury writes an ended session where none is: the unique _id makes it evidence against an owner that has vanished.
	Bury(ctx context.Context, id string) error
	// Remove deletes the session, by its owner, when nothing refers to it any more.
	Remove(ctx context.Context, id string) error
	// MarkCleared notes that an ended session has no ticket left.
	MarkCleared(ctx context.Context, id string) error
	// Get reads sessions by id; those that are missing are missing in the reply, which proves nothing.
	Get(ctx context.Context, ids []string) ([]Session, error)
	// Now is the primary's clock, against which expiresAt is to be read.
	Now(ctx context.Context) (time.Time, error)
	// Uncleared pages through the sessions that are not ended, or ended and not yet cleared.
	Uncleared(ctx context.Context, after string, limit int) ([]Session, error)
}

// Collection is Sessions in MongoDB.
type Collection struct{ coll *mongo.Collection }

var _ Sessions = (*Collection)(nil)

// Open returns the sessions in db. It makes no call.
func Open(db *mongo.Database, prefix string) *Collection {
	return &Collection{queue.Pinned(db, prefix+"sessions")}
}

// endedDays is how long an ended session is kept, for people. Its absence means the same as its presence to the
// owner (no renewal matches), so the clock of the TTL monitor can do no harm.
const endedDays = 24 * time.Hour

// Setup makes the collection and its index. It may be repeated.
func (c *Collection) Setup(ctx context.Context) error {
	return queue.EnsureIndex(ctx, c.coll, bson.D{{Key: "endedAt", Value: 1}},
		options.Index().SetExpireAfterSeconds(int32(endedDays.Seconds())))
}

// alive is the filter of a session that its owner may still prolong.
func alive(id string) bson.D {
	return bson.D{{Key: "_id", Value: id}, {Key: "ended", Value: bson.D{{Key: "$exists", Value: false}}}}
}

// beat is the change of Begin and Renew. expiresAt is by the server's clock of this moment and so can go back with it;
// beat always grows, so that no acknowledged renewal is a write that changed nothing.
func beat(ttl time.Duration, more ...bson.E) mongo.Pipeline {
	return mongo.Pipeline{{{Key: "$set", Value: append(bson.D{
		{Key: "beat", Value: bson.D{{Key: "$add", Value: bson.A{bson.D{{Key: "$ifNull", Value: bson.A{"$beat", int64(0)}}}, int64(1)}}}},
		{Key: "ttl", Value: ttl.Milliseconds()},
		{Key: "expiresAt", Value: bson.D{{Key: "$add", Value: bson.A{"$$NOW", ttl.Milliseconds()}}}},
	}, more...)}}}
}

// Begin implements [Sessions]. Its filter meets nothing, or its own earlier attempt, or an ended session; only the last is
// a duplicate key.
func (c *Collection) Begin(ctx context.Context, s Session) error {
	literal := func(v string) bson.D { return bson.D{{Key: "$literal", Value: v}} }
	_, err := c.coll.UpdateOne(ctx, alive(s.ID), beat(s.TTL(),
		bson.E{Key: "startedAt", Value: bson.D{{Key: "$ifNull", Value: bson.A{"$startedAt", "$$NOW"}}}},
		bson.E{Key: "host", Value: literal(s.Host)},
		bson.E{Key: "pid", Value: s.PID},
		bson.E{Key: "label", Value: literal(s.Label)},
	), options.UpdateOne().SetUpsert(true))
	if mongo.IsDuplicateKeyError(err) {
		return ErrEnded
	}
	return wrap("begin", err)
}

// Renew implements [Sessions]. "No match" may come from a server that is no longer the primary, of a session that it has
// not heard of yet. Ending on it is the safe side: only the owner itself stops.
func (c *Collection) Renew(ctx context.Context, id string, ttl time.Duration) error {
	res, err := c.coll.UpdateOne(ctx, alive(id), beat(ttl))
	if err == nil && res.MatchedCount == 0 {
		return ErrEnded
	}
	return wrap("renew", err)
}

// End implements [Sessions].
func (c *Collection) End(ctx context.Context, id string, beat int64) (bool, error) {
	f := append(alive(id),
		bson.E{Key: "beat", Value: beat},
		bson.E{Key: "$expr", Value: bson.D{{Key: "$lt", Value: bson.A{"$expiresAt", "$$NOW"}}}})
	res, err := c.coll.UpdateOne(ctx, f, mongo.Pipeline{{{Key: "$set", Value: bson.D{
		{Key: "ended", Value: true}, {Key: "endedAt", Value: "$$NOW"},
	}}}})
	if err != nil {
		return false, wrap("end", err)
	}
	return res.MatchedCount == 1, nil
}

// Bury implements [Sessions]. A duplicate key is a session that exists after all.
func (c *Collection) Bury(ctx context.Context, id string) error {
	_, err := c.coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "ended", Value: true}},
		mongo.Pipeline{{{Key: "$set", Value: bson.D{
			{Key: "endedAt", Value: bson.D{{Key: "$ifNull", Value: bson.A{"$endedAt", "$$NOW"}}}},
			{Key: "beat", Value: bson.D{{Key: "$ifNull", Value: bson.A{"$beat", int64(0)}}}},
		}}}}, options.UpdateOne().SetUpsert(true))
	if mongo.IsDuplicateKeyError(err) {
		return nil
	}
	return wrap("bury", err)
}

// Remove implements [Sessions].
func (c *Collection) Remove(ctx context.Context, id string) error {
	_, err := c.coll.DeleteOne(ctx, bson.D{{Key: "_id", Value: id}})
	return wrap("remove", err)
}

// MarkCleared implements [Sessions].
func (c *Collection) MarkCleared(ctx context.Context, id string) error {
	_, err := c.coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "ended", Value: true}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "cleared", Value: true}}}})
	return wrap("mark cleared", err)
}

// Get implements [Sessions].
func (c *Collection) Get(ctx context.Context, ids []string) ([]Session, error) {
	return c.find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, options.Find())
}

// Now implements [Sessions].
func (c *Collection) Now(ctx context.Context) (time.Time, error) {
	var hello struct {
		LocalTime time.Time `bson:"localTime"`
	}
	err := c.coll.Database().Client().Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	return hello.LocalTime, wrap("read the time for", err)
}

// Uncleared implements [Sessions].
func (c *Collection) Uncleared(ctx context.Context, after string, limit int) ([]Session, error) {
	return c.find(ctx, bson.D{
		{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}},
		{Key: "cleared", Value: bson.D{{Key: "$ne", Value: true}}},
	}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)))
}

func (c *Collection) find(ctx context.Context, f bson.D, o *options.FindOptionsBuilder) ([]Session, error) {
	cur, err := c.coll.Find(ctx, f, o.SetBatchSize(1000))
	if err != nil {
		return nil, wrap("read", err)
	}
	all, _, err := queue.DecodeAll(ctx, cur, (*Session).check)
	return all, err
}

// check refuses documents that are not sessions by their form: they are nobody's lease, and are treated as missing.
func (s *Session) check() error {
	if s.ID == "" || s.Beat < 0 || !s.Ended && s.TTLMS < 1 {
		return fmt.Errorf("%w: session %q", queue.ErrMalformed, s.ID)
	}
	return nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("fairlock: %s session: %w", what, err)
}
