// Command scraper fetches pages of several web sites from however many machines it runs on, one page at a time for each site. Each site has limits of its own: how
// long a fetch may take, and how long to leave the site alone after it.
//
//	scraper https://one.example/a https://one.example/b 5s=https://slow.example/
//
// What is before = is how long a fetch of that site may take.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
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
func get(ctx context.Context, page string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	n, err := io.Copy(io.Discard, resp.Body)
	log.Print(page, ": ", resp.Status, ", ", n, " bytes")
	return err
}

// sites are those of the arguments. Pages of one host are one site: its name is that of the lock, on every machine and in whatever order.
func sites(args []string) ([]site, error) {
	var all []site
	if len(args) == 0 {
		return nil, errors.New("pages: none, must be at least one, as URL or LIMIT=URL")
	}
	for _, arg := range args {
		page, limit, named := arg, 30*time.Second, false
		if before, after, found := strings.Cut(arg, "="); found {
			if d, err := time.ParseDuration(before); err == nil {
				page, limit, named = after, d, true
			}
		}
		u, err := url.Parse(page)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return nil, fmt.Errorf("page is %q: must be an http or https URL", page)
		case limit <= 0:
			return nil, fmt.Errorf("limit of %q is %v: must be positive", page, limit)
		}
		i := slices.IndexFunc(all, func(s site) bool { return s.Name == u.Host })
		if i < 0 {
			i = len(all)
			all = append(all, site{Name: u.Host, Limit: limit, Rest: time.Second, Patient: time.Minute})
		}
		if named {
			all[i].Limit = limit
		}
		all[i].Pages = append(all[i].Pages, page)
	}
	return all, nil
}

func main() {
	all, err := sites(os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("FAIRLOCK_URI")))
	if err != nil {
		log.Fatal("FAIRLOCK_URI: ", err)
	}
	m, err := fairlock.New(ctx, client.Database("fairlock_scraper"), nil)
	if err != nil {
		log.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() {
			if err := scrape(ctx, m, s, get); err != nil {
				log.Print(err)
			}
		})
	}
	wg.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := errors.Join(m.Close(end), client.Disconnect(end)); err != nil {
		log.Fatal(err)
	}
}
