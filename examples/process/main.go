// Command process serves POST /process?key=K, which does the work of one request at a time for each key, on however many machines it runs. A request whose
// turn does not come in time is answered "Unable to acquire lock, please try again later".
package main

import (
	"context"
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

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
)

type service struct {
	locks *fairlock.Manager
	work  func(ctx context.Context, key string) error // must stop when ctx ends
	wait  time.Duration                               // in line
	hold  time.Duration                               // for the work
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	if err := fairlock.ValidateName("process/" + key); err != nil || key == "" {
		http.Error(w, fmt.Sprintf("key is %q: must be 1 to 247 bytes of UTF-8 without control characters", key), http.StatusBadRequest)
		return
	}
	err := s.locks.Do(r.Context(), "process/"+key, func(ctx context.Context) error { return s.work(ctx, key) },
		fairlock.MaxWait(s.wait), fairlock.MaxHold(s.hold), fairlock.Label(r.RemoteAddr))
	switch {
	case errors.Is(err, fairlock.ErrWaitLimit), errors.Is(err, fairlock.ErrTooManyWaiters):
		w.Header().Set("Retry-After", "2")
		http.Error(w, "Unable to acquire lock, please try again later", http.StatusServiceUnavailable)
	case errors.Is(err, fairlock.ErrLost):
		// The work may not be complete, and somebody else may have begun: whoever asked must know.
		http.Error(w, "Lock lost while processing", http.StatusInternalServerError)
	case err != nil:
		log.Print(err)
		http.Error(w, "Not processed", http.StatusInternalServerError)
	default:
		_, _ = fmt.Fprintln(w, "processed", key)
	}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("arguments are %q: must be none", flag.Args())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen string) error {
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("FAIRLOCK_URI")))
	if err != nil {
		return fmt.Errorf("FAIRLOCK_URI: %w", err)
	}
	m, err := fairlock.New(ctx, client.Database("fairlock_process"), nil)
	if err != nil {
		return err
	}
	s := &service{locks: m, wait: 5 * time.Second, hold: 5 * time.Minute, work: func(ctx context.Context, _ string) error {
		select {
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	mux := http.NewServeMux()
	mux.Handle("POST /process", s)
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	fmt.Println("http://" + ln.Addr().String() + "/process?key=")
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(end), m.Close(end), client.Disconnect(end))
}
