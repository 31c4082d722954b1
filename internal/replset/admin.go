package replset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	// answerLimit bounds one question to one member. Members known to be dead or
	// paused are not asked.
	answerLimit = 2 * time.Second

	// noteLimit bounds one replicated write. After the loss of a primary such a
	// write takes up to a heartbeat, 2 s, for a while.
	noteLimit = 5 * time.Second
)

// hello is what a member says of itself and of the set.
type hello struct {
	Writable   bool          `bson:"isWritablePrimary"`
	Secondary  bool          `bson:"secondary"`
	Primary    string        `bson:"primary"`
	ElectionID bson.ObjectID `bson:"electionId"`
}

// run sends one command over a connection of its own. A kept client would hold
// state, such as a backoff or a failed pool, from before a kill or a pause.
func (m *Member) run(ctx context.Context, limit time.Duration, cmd bson.D) (bson.Raw, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := mongo.Connect(m.set.security.govern(options.Client().
		SetHosts([]string{m.Addr()}).
		SetDirect(true).
		SetServerMonitoringMode("poll"). // no second monitoring connection
		SetConnectTimeout(limit).
		SetServerSelectionTimeout(limit)))
	if err != nil {
		return nil, err
	}
	defer func() {
		// Nothing is in flight; the limit is for a member that was paused just now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
		defer cancel()
		_ = client.Disconnect(ctx)
	}()
	raw, err := client.Database("admin").RunCommand(ctx, cmd).Raw()
	if err != nil {
		return nil, err
	}
	// ok:1 with a failed write concern is a failure.
	if wce, err := raw.LookupErr("writeConcernError"); err == nil {
		return nil, fmt.Errorf("write concern: %s", wce)
	}
	return raw, nil
}

func (m *Member) hello(ctx context.Context) (h hello, err error) {
	raw, err := m.run(ctx, answerLimit, bson.D{{Key: "hello", Value: 1}})
	if err != nil {
		return hello{}, fmt.Errorf("%s: %w", m.Addr(), err)
	}
	return h, bson.Unmarshal(raw, &h)
}

// note writes to the oplog alone, so it leaves no database behind, and waits
// until w members have it. Only a real write proves that m is primary: reads and
// writes without effect succeed on a deposed one.
func (m *Member) note(ctx context.Context, w any) error {
	_, err := m.run(ctx, noteLimit, bson.D{
		{Key: "appendOplogNote", Value: 1},
		{Key: "data", Value: bson.D{{Key: "fairlock", Value: "probe"}}},
		{Key: "writeConcern", Value: bson.D{{Key: "w", Value: w}, {Key: "wtimeout", Value: noteLimit.Milliseconds()}}},
	})
	if err != nil {
		return fmt.Errorf("%s: write to %v members: %w", m.Addr(), w, err)
	}
	return nil
}

// initiate makes the servers a set, and the first member its primary.
func (s *Set) initiate(ctx context.Context) error {
	var members bson.A
	for _, m := range s.members {
		members = append(members, bson.D{{Key: "_id", Value: m.id}, {Key: "host", Value: m.Addr()}})
	}
	config := bson.D{{Key: "_id", Value: s.opts.Name}, {Key: "members", Value: members}}
	if t := s.opts.ElectionTimeout; t > 0 {
		settings := bson.D{{Key: "electionTimeoutMillis", Value: t.Milliseconds()}}
		if t < 2*defaultHeartbeat {
			settings = append(settings, bson.E{Key: "heartbeatIntervalMillis", Value: max(1, t.Milliseconds()/2)})
		}
		config = append(config, bson.E{Key: "settings", Value: settings})
	}
	_, err := s.members[0].run(ctx, startLimit, bson.D{{Key: "replSetInitiate", Value: config}})
	if err != nil {
		return fmt.Errorf("replset: initiate: %w", errors.Join(err, s.death()))
	}
	// Left alone, the members would wait one election timeout for a primary that
	// never was: 10 of the 12 s that a start would take. The request is refused as
	// long as the other members have not learnt of the set, hence again and again.
	return s.await(ctx, func(ctx context.Context) error {
		_, err := s.members[0].run(ctx, answerLimit, bson.D{{Key: "replSetStepUp", Value: 1}})
		if err == nil {
			return nil
		}
		_, perr := s.Primary(ctx)
		if perr != nil {
			return errors.Join(perr, err)
		}
		return nil
	}, s.death)
}
