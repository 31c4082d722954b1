// Command gettoken serves GET /get_token: a third party's access token, which expires and which only one process may refresh at a time. Whoever finds
// it expired stands in line; the first refreshes it, and those behind find it fresh. Nobody waits for longer than is said: then the answer is 503, "Server
// is busy", with Retry-After. Waiting costs next to nothing, however many wait.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/fence"
)

// token is what the third party gives.
type token struct {
	Value   string    `bson:"value" json:"token"`
	Expires time.Time `bson:"expires" json:"expires"`
}

// store keeps the token for all processes.
type store interface {
	Load(ctx context.Context) (token, error)               // the zero token if there is none
	Save(ctx context.Context, t token, holder int64) error // refuses a holder older than one that has saved
}

// mostRefresh bounds a refresh: a third party that hangs must not hang all who come after.
const mostRefresh = 30 * time.Second

type service struct {
	locks   *fairlock.Manager
	store   store
	refresh func(context.Context) (token, error)
	wait    time.Duration // how long a request may stand in line
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, err := s.get(r.Context())
	switch {
	case errors.Is(err, fairlock.ErrWaitLimit), errors.Is(err, fairlock.ErrTooManyWaiters):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Server is busy", http.StatusServiceUnavailable)
	case err != nil:
		log.Print(err)
		http.Error(w, "No token at present", http.StatusBadGateway)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(t)
	}
}

func (s *service) get(ctx context.Context) (t token, err error) {
	if t, err = s.store.Load(ctx); err != nil || fresh(t) {
		return t, err
	}
	lock, err := s.locks.Lock(ctx, "third party token", fairlock.MaxWait(s.wait), fairlock.MaxHold(mostRefresh))
	if err != nil {
		return t, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = lock.Unlock(end) // that it was lost, the fence has told
	}()
	if t, err = s.store.Load(ctx); err != nil || fresh(t) {
		return t, err // somebody before us in line has refreshed it
	}
	// Under the lock's context and not the request's: the others wait for what comes of it, though this client may have gone.
	if t, err = s.refresh(lock.Context()); err != nil {
		return t, err
	}
	return t, s.store.Save(lock.Context(), t, lock.Token())
}

func fresh(t token) bool { return time.Until(t.Expires) > time.Second }

// collection is a store in MongoDB. A process that was stopped in the middle of a refresh cannot put its old token over a newer one.
type collection struct{ *mongo.Collection }

func (c collection) Load(ctx context.Context) (t token, err error) {
	err = c.FindOne(ctx, bson.D{{Key: "_id", Value: "token"}}).Decode(&t)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = nil
	}
	return t, err
}

func (c collection) Save(ctx context.Context, t token, holder int64) error {
	f, err := fence.New(holder)
	if err != nil {
		return err
	}
	_, err = f.UpdateOne(ctx, c.Collection, bson.D{{Key: "_id", Value: "token"}}, bson.D{{Key: "$set", Value: t}}, options.UpdateOne().SetUpsert(true))
	return err
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address")
	slow := flag.Duration("refresh", 300*time.Millisecond, "how long the third party takes")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("arguments are %q: must be none", flag.Args())
	}
	if *slow <= 0 {
		log.Fatalf("-refresh is %v: must be positive", *slow)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *slow); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen string, slow time.Duration) error {
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("FAIRLOCK_URI")))
	if err != nil {
		return fmt.Errorf("FAIRLOCK_URI: %w", err)
	}
	db := client.Database("fairlock_gettoken")
	m, err := fairlock.New(ctx, db, nil)
	if err != nil {
		return err
	}
	s := &service{locks: m, store: collection{db.Collection("tokens")}, wait: 5 * time.Second}
	s.refresh = func(ctx context.Context) (token, error) { // in place of the third party
		log.Print("refresh")
		select {
		case <-time.After(slow):
			// In the precision of the database, so that all are told the same.
			return token{rand.Text(), time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)}, nil
		case <-ctx.Done():
			return token{}, context.Cause(ctx)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /get_token", s)
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	fmt.Println("http://" + ln.Addr().String() + "/get_token")
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(end), m.Close(end), client.Disconnect(end))
}
