// Command scraper fetches pages of several web sites from however many machines it runs on, one page at a time for each site. Each site has limits of its own: how
// long a fetch may take, and how long to leave the site alone after it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
)

// site is a web site and its limits.
type site struct {
	Name    string
	Limit   time.Duration // for one fetch: the lock is lost after that, and the fetch is ended
	Rest    time.Duration // after each fetch, under the lock
	Pages   []string
	Patient time.Duration // how long to stand in line for it
}

// scrape fetches all pages of a site, each under the site's lock, so that other machines get theirs between. A page whose turn does not come or that takes too
// long is an error, and the next is tried.
func scrape(ctx context.Context, m *fairlock.Manager, s site, fetch func(context.Context, string) error) error {
	var errs []error
	for _, page := range s.Pages {
		err := m.Do(ctx, "site/"+s.Name, func(ctx context.Context) error {
			within, cancel := context.WithTimeout(ctx, s.Limit)
			defer cancel()
			err := fetch(within, page)
			if err != nil {
				err = fmt.Errorf("%s: %w", page, err)
			}
			return errors.Join(err, rest(ctx, s.Rest))
			// A fetch that does not end when it is told to costs it the lock, and nobody else more than a second.
		}, fairlock.MaxHold(s.Limit+s.Rest+time.Second), fairlock.MaxWait(s.Patient), fairlock.Label(page))
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// get is a fetch that ends with its context.
func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := io.Copy(io.Discard, resp.Body)
	log.Print(url, ": ", resp.Status, ", ", n, " bytes")
	return err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("FAIRLOCK_URI")))
	if err != nil {
		log.Fatal(err)
	}
	m, err := fairlock.New(ctx, client.Database("fairlock_scraper"), nil)
	if err != nil {
		log.Fatal(err)
	}
	var all sync.WaitGroup
	for i, url := range os.Args[1:] { // each its own site
		all.Go(func() {
			s := site{fmt.Sprint(i), 30 * time.Second, time.Second, []string{url}, time.Minute}
			if err := scrape(ctx, m, s, get); err != nil {
				log.Print(err)
			}
		})
	}
	all.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := errors.Join(m.Close(end), client.Disconnect(end)); err != nil {
		log.Fatal(err)
	}
}
