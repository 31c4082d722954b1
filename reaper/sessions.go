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

// Forced is a lock of the session's owner that somebody has unlocked by force.
type Forced struct {
	Lock  string
	Token int64
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
	// proof. ErrEnded otherwise. It returns what Tell has left, the newest last, each time again.
	Renew(ctx context.Context, id string, ttl time.Duration) ([]Forced, error)
	// Tell leaves word for the session's owner, who reads it at the next renewal. found is false when the session has ended, or is gone.
	Tell(ctx context.Context, id string, f Forced) (found bool, err error)
	// End ends a session whose beat is still beat and whose lease is over by the server's clock too, or cannot be judged by it since
	// that was set back, and reports whether it did.
	End(ctx context.Context, id string, beat int64) (bool, error)
	// Bury writes an ended session where none is, or a document that is none: the unique _id makes it evidence against an owner that has
	// vanished.
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
type Collection struct {
	coll   *mongo.Collection
	passed queue.Passed
}

var _ Sessions = (*Collection)(nil)

// Open returns the sessions in db. It makes no call.
func Open(db *mongo.Database, prefix string) *Collection {
	return &Collection{coll: queue.Pinned(db, prefix+"sessions")}
}

// Report has p called for documents that are passed over. It must come before the first call.
func (c *Collection) Report(p queue.Passed) { c.passed = p }

// endedDays is how long an ended session is kept, for people. Its absence means the same as its presence to the
// owner (no renewal matches), so the clock of the TTL monitor can do no harm.
const endedDays = 24 * time.Hour

// Setup makes the collection and its index. It may be repeated.
func (c *Collection) Setup(ctx context.Context) error {
	return queue.EnsureIndex(ctx, c.coll, bson.D{{Key: "endedAt", Value: 1}},
		options.Index().SetExpireAfterSeconds(int32(endedDays.Seconds())))
}

// alive is the filter of a session that its owner may still prolong. One whose beat is none any more has ended for its owner: a
// renewal that is acknowledged leaves a session that is well formed, so who sees one that is not, for a whole lease, sees one that
// was not renewed.
func alive(id string) bson.D {
	return bson.D{{Key: "_id", Value: id}, {Key: "ended", Value: bson.D{{Key: "$exists", Value: false}}}, wellFormed[0]}
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
	return c.wrap(ctx, "begin", err, "update", "insert")
}

// Renew implements [Sessions]. "No match" may come from a server that is no longer the primary, of a session that it has
// not heard of yet. Ending on it is the safe side: only the owner itself stops.
func (c *Collection) Renew(ctx context.Context, id string, ttl time.Duration) ([]Forced, error) {
	raw, err := c.coll.FindOneAndUpdate(ctx, alive(id), beat(ttl), options.FindOneAndUpdate().
		SetReturnDocument(options.After).SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "forced", Value: 1}})).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, ErrEnded
	}
	return decodeForced(raw), c.wrap(ctx, "renew", err, "find", "update")
}

// mostForced is how many words a session keeps. A holder that is told more between two renewals hears of the older ones from the lock
// documents.
const mostForced = 64

// Tell implements [Sessions].
func (c *Collection) Tell(ctx context.Context, id string, f Forced) (bool, error) {
	res, err := c.coll.UpdateOne(ctx, alive(id), bson.D{{Key: "$push", Value: bson.D{{Key: "forced", Value: bson.D{
		{Key: "$each", Value: bson.A{bson.D{{Key: "lock", Value: f.Lock}, {Key: "token", Value: f.Token}}}},
		{Key: "$slice", Value: -mostForced},
	}}}}})
	if err != nil {
		return false, c.wrap(ctx, "tell", err, "update")
	}
	return res.MatchedCount == 1, nil
}

// End implements [Sessions]. An expiresAt more than a ttl ahead was written under a clock that has been set back since, by a
// failover maybe, and says nothing; without the second case a clock set back by an hour would keep the dead for an hour.
func (c *Collection) End(ctx context.Context, id string, beat int64) (bool, error) {
	f := append(alive(id),
		bson.E{Key: "beat", Value: beat},
		bson.E{Key: "$expr", Value: bson.D{{Key: "$or", Value: bson.A{
			bson.D{{Key: "$lt", Value: bson.A{"$expiresAt", "$$NOW"}}},
			bson.D{{Key: "$gt", Value: bson.A{"$expiresAt", bson.D{{Key: "$add", Value: bson.A{"$$NOW", "$ttl"}}}}}},
		}}}})
	res, err := c.coll.UpdateOne(ctx, f, mongo.Pipeline{{{Key: "$set", Value: bson.D{
		{Key: "ended", Value: true}, {Key: "endedAt", Value: "$$NOW"},
	}}}})
	if err != nil {
		return false, c.wrap(ctx, "end", err, "update")
	}
	return res.MatchedCount == 1, nil
}

// Bury implements [Sessions]. A duplicate key is a session that exists after all, or a document that is none: that is replaced.
func (c *Collection) Bury(ctx context.Context, id string) error {
	ended := bson.D{{Key: "_id", Value: id}, {Key: "ended", Value: true}}
	_, err := c.coll.UpdateOne(ctx, ended, mongo.Pipeline{{{Key: "$set", Value: bson.D{
		{Key: "endedAt", Value: bson.D{{Key: "$ifNull", Value: bson.A{"$endedAt", "$$NOW"}}}},
		{Key: "beat", Value: bson.D{{Key: "$ifNull", Value: bson.A{"$beat", int64(0)}}}},
	}}}}, options.UpdateOne().SetUpsert(true))
	if mongo.IsDuplicateKeyError(err) {
		none := bson.D{
			{Key: "_id", Value: id}, {Key: "ended", Value: bson.D{{Key: "$exists", Value: false}}},
			{Key: "$nor", Value: bson.A{wellFormed}},
		}
		_, err = c.coll.UpdateOne(ctx, none, mongo.Pipeline{{{Key: "$replaceWith", Value: bson.D{
			{Key: "_id", Value: "$_id"}, {Key: "ended", Value: true}, {Key: "endedAt", Value: "$$NOW"}, {Key: "beat", Value: int64(0)},
		}}}})
	}
	return c.wrap(ctx, "bury", err, "update", "insert")
}

// Remove implements [Sessions].
func (c *Collection) Remove(ctx context.Context, id string) error {
	_, err := c.coll.DeleteOne(ctx, bson.D{{Key: "_id", Value: id}})
	return c.wrap(ctx, "remove", err, "remove")
}

// MarkCleared implements [Sessions].
func (c *Collection) MarkCleared(ctx context.Context, id string) error {
	_, err := c.coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "ended", Value: bson.D{{Key: "$exists", Value: true}}}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "cleared", Value: true}}}})
	return c.wrap(ctx, "mark cleared", err, "update")
}

// Get implements [Sessions].
func (c *Collection) Get(ctx context.Context, ids []string) ([]Session, error) {
	cur, err := c.coll.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, options.Find().SetBatchSize(1000))
	if err != nil {
		return nil, c.wrap(ctx, "read", err, "find")
	}
	return queue.ReadAll(ctx, c.coll, cur, decodeSession, c.passed)
}

// Now implements [Sessions].
func (c *Collection) Now(ctx context.Context) (time.Time, error) {
	var hello struct {
		LocalTime time.Time `bson:"localTime"`
	}
	err := c.coll.Database().Client().Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	return hello.LocalTime, c.wrap(ctx, "read the time for", err)
}

// Uncleared implements [Sessions].
func (c *Collection) Uncleared(ctx context.Context, after string, limit int) ([]Session, error) {
	all, err := queue.ReadSorted(ctx, c.coll, bson.D{
		{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}},
		{Key: "cleared", Value: bson.D{{Key: "$ne", Value: true}}},
	}, nil, limit, decodeSession, c.passed)
	return all, c.wrap(ctx, "list", err, "find")
}

func (c *Collection) wrap(ctx context.Context, what string, err error, need ...string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("fairlock: %s session: %w", what, queue.Explain(ctx, c.coll, err, need...))
}
