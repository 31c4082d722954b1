package faults

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/replset"
)

// databases numbers the databases of this process's runs.
var databases atomic.Int64

// Runner performs runs, one after the other, and keeps servers from one to the next. It is for one goroutine.
type Runner struct {
	// Dir is where runs with violations are kept, and the newest picture of each row.
	Dir string
	// Log gets a line now and then.
	Log func(format string, args ...any)

	set *replset.Set
	key string
}

// startLimit bounds the start of servers, and healthLimit the wait for them to be healthy.
const (
	startLimit  = 5 * time.Minute // a first run downloads mongod
	healthLimit = 90 * time.Second
)

// Run performs one run of a row. An error means that the run could not be made, and proves nothing; ctx has ended, most often.
func (rn *Runner) Run(ctx context.Context, row Row, run int, seed uint64, length time.Duration) (res Result, err error) {
	begin := time.Now()
	row.Crew = row.Crew.withDefaults()
	res = Result{Row: row.Name, Run: run, Seed: seed, Date: begin.UTC().Truncate(time.Second), Length: length.Seconds(), Machine: machine(),
		Procs: row.Crew.Procs, Callers: row.Crew.Procs * row.Crew.Callers, Gate: row.gate()}
	dir := filepath.Join(rn.Dir, fmt.Sprintf("%s-%d-%d", row.Name, seed, begin.Unix()))
	if dir, err = filepath.Abs(dir); err != nil {
		return res, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return res, err
	}
	r := &Run{Row: row, Seed: seed, Length: length, Dir: dir, log: rn.Log, Rand: rand.New(rand.NewPCG(seed, hash(row.Name)))} //nolint:gosec // chooses harm
	if r.Deployment, err = rn.deploy(ctx, r); err != nil {
		return res, err
	}
	rn.Log("%s: run %d, seed %d", row.Name, run, seed)
	err = r.perform(ctx, &res)
	rn.keep(r, &res, err)
	if row.Fresh || row.Deploy != nil || err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthLimit)
		defer cancel()
		err = errors.Join(err, r.Deployment.Stop(stop))
		if r.Set == rn.set {
			rn.set = nil
		}
	}
	res.Took = time.Since(begin).Seconds()
	return res, err
}

// deploy gives the run healthy servers: those of the run before, if they are such as this row wants and have come to be well again.
func (rn *Runner) deploy(ctx context.Context, r *Run) (Deployment, error) {
	if r.Row.Deploy != nil {
		return r.Row.Deploy(ctx, r.Dir)
	}
	key := fmt.Sprintf("%+v", r.Row.Set)
	if rn.set != nil && rn.key == key && !r.Row.Fresh {
		health, cancel := context.WithTimeout(ctx, healthLimit)
		defer cancel()
		if err := rn.set.WaitHealthy(health); err == nil {
			r.Set = rn.set
			return rn.set, nil
		} else if ctx.Err() != nil {
			return nil, err
		}
		rn.Log("servers of the run before are not well any more, starting others")
	}
	if err := rn.Close(ctx); err != nil {
		return nil, err
	}
	start, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	set, err := replset.Start(start, r.Row.Set)
	if err != nil {
		return nil, err
	}
	rn.set, rn.key, r.Set = set, key, set
	return set, nil
}

// keep throws the files of a run away, unless they are evidence. The picture of its most disturbed register stays.
func (rn *Runner) keep(r *Run, res *Result, err error) {
	if err != nil || len(res.Violations) > 0 {
		res.Kept = r.Dir
		if r.Set != nil {
			for i, m := range r.Set.Members() {
				_ = os.WriteFile(filepath.Join(r.Dir, fmt.Sprintf("mongod-%d.log", i)), []byte(m.LogTail(5000)), 0o600)
			}
		}
		return
	}
	pictures, _ := filepath.Glob(filepath.Join(r.Dir, "register-*.html"))
	for _, p := range pictures {
		_ = os.Rename(p, filepath.Join(rn.Dir, r.Row.Name+".html"))
	}
	_ = os.RemoveAll(r.Dir)
}

// Close ends the servers.
func (rn *Runner) Close(ctx context.Context) error {
	set := rn.set
	rn.set = nil
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthLimit)
	defer cancel()
	return set.Stop(stop)
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}
