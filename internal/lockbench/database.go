package lockbench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

// own is the name, after the prefix, of the collection with the mark and the floor's document.
const own = "bench"

// ErrNotEmpty: the database has something in it. Errors that match it are of type *NotEmptyError.
var ErrNotEmpty = errors.New("lockbench: the database is not empty")

// NotEmptyError says what is there.
type NotEmptyError struct {
	DB          string
	Collections []string
	Own         bool // another run's mark is among it
}

func (e *NotEmptyError) Error() string {
	if e.Own {
		return fmt.Sprintf("database %q is in use by another bench, or one was killed and has left it: use another one, or drop it", e.DB)
	}
	const most = 3
	names, more := e.Collections, ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("database %q has collections in it (%s%s): must be empty, for it is dropped at the end", e.DB, strings.Join(names, ", "), more)
}

// Is makes errors.Is(err, ErrNotEmpty) true.
func (e *NotEmptyError) Is(target error) bool { return target == ErrNotEmpty }

// claim marks an empty database as this run's. claimed is false only if there is nothing of this run's to drop.
func claim(ctx context.Context, db *mongo.Database, prefix string) (claimed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	names, err := db.ListCollectionNames(ctx, bson.D{}, options.ListCollections().SetAuthorizedCollections(true))
	if err != nil {
		return false, err
	}
	if len(names) > 0 {
		slices.Sort(names)
		return false, &NotEmptyError{DB: db.Name(), Collections: names, Own: slices.Contains(names, prefix+own)}
	}
	host, _ := os.Hostname()
	// Of two that found it empty one is told that the mark is there.
	_, err = queue.Pinned(db, prefix+own).InsertOne(ctx, bson.D{
		{Key: "_id", Value: "mark"}, {Key: "host", Value: host}, {Key: "pid", Value: os.Getpid()}, {Key: "at", Value: time.Now()},
	})
	if mongo.IsDuplicateKeyError(err) {
		return false, &NotEmptyError{DB: db.Name(), Own: true}
	}
	return err == nil || mongo.IsNetworkError(err) || mongo.IsTimeout(err), err
}

// drop removes what a run has made, the mark last. The server removes a database with its last collection; what somebody else has put
// there meanwhile stays.
func drop(ctx context.Context, db *mongo.Database, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	for _, name := range []string{"locks", "tickets", "sessions", own} {
		if err := db.Collection(prefix + name).Drop(ctx); err != nil {
			return fmt.Errorf("database %q is left, drop it by hand: %w", db.Name(), err)
		}
	}
	return nil
}

// manager makes one.
func manager(ctx context.Context, db *mongo.Database, prefix, label string, log *slog.Logger) (*fairlock.Manager, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	return fairlock.New(ctx, db, &fairlock.Config{Prefix: prefix, Label: label, Logger: log})
}

func closeManager(ctx context.Context, m *fairlock.Manager) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	return m.Close(ctx)
}

func disconnect(ctx context.Context, client *mongo.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = client.Disconnect(ctx)
}
