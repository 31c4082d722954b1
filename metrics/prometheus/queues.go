package fairprom

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

// QueueOptions are what [Queues] can be told. nil, or the zero value, is the default.
type QueueOptions struct {
	// LockNames gives each lock that somebody holds or waits for time series of its own, with the label lock. At most MostLocks locks, those with
	// the longest queues.
	LockNames bool
	// MostLocks bounds how many locks are looked at for their oldest waiter, and the series of LockNames. 0: 100.
	MostLocks int
	// Timeout bounds the reads of one scrape. 0: 5 s.
	Timeout time.Duration
	// ConstLabels are added to all metrics.
	ConstLabels prometheus.Labels
}

// Queues has metrics of the queues, of all processes, as the database knows them. It reads the collection of locks, and of each lock that
// somebody waits for its waiters, at each scrape: one process of a fleet is enough. It is a [prometheus.Collector], and safe for concurrent use.
type Queues struct {
	m    *fairlock.Manager
	opts QueueOptions

	depth, held, oldest, locks, ok *prometheus.Desc
}

// NewQueues returns a collector of the locks of m's database and prefix.
func NewQueues(m *fairlock.Manager, o *QueueOptions) *Queues {
	q := &Queues{m: m}
	if o != nil {
		q.opts = *o
	}
	q.opts.MostLocks = cmp.Or(q.opts.MostLocks, 100)
	q.opts.Timeout = cmp.Or(q.opts.Timeout, 5*time.Second)
	var named []string
	if q.opts.LockNames {
		named = []string{"lock"}
	}
	desc := func(name, help string, labels []string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, q.opts.ConstLabels)
	}
	q.depth = desc("fairlock_queue_depth", "Callers that wait, in all processes; of semaphores permits.", named)
	q.held = desc("fairlock_queue_held", "Callers that hold, in all processes; of semaphores permits.", named)
	q.oldest = desc("fairlock_queue_oldest_seconds", "How long the first in line has been waiting; the longest of all locks.", named)
	q.locks = desc("fairlock_queue_locks", "Locks in the database, idle ones included.", nil)
	q.ok = desc("fairlock_queue_read", "1 when the queues could be read at this scrape, else 0.", nil)
	return q
}

// Describe implements [prometheus.Collector].
func (q *Queues) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{q.depth, q.held, q.oldest, q.locks, q.ok} {
		to <- d
	}
}

// Collect implements [prometheus.Collector]. A database that does not answer costs its own series and no others.
func (q *Queues) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), q.opts.Timeout)
	defer cancel()
	all, err := q.read(ctx)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if err != nil {
		gauge(q.ok, 0)
		return
	}
	gauge(q.ok, 1)
	gauge(q.locks, float64(all.locks))
	if q.opts.LockNames {
		for _, l := range all.busy {
			gauge(q.depth, float64(l.Waiting), l.Name)
			gauge(q.held, float64(l.Held), l.Name)
			gauge(q.oldest, l.oldest.Seconds(), l.Name)
		}
		return
	}
	gauge(q.depth, float64(all.waiting))
	gauge(q.held, float64(all.held))
	gauge(q.oldest, all.oldest.Seconds())
}

type queues struct {
	locks, waiting, held int64
	oldest               time.Duration
	busy                 []busy // with the longest queues, at most MostLocks
}

// callers is how many hold and how many wait where so many units of a read/write lock are admitted and so many are not. A writer has as many as there can be
// readers, and while some read, most of those of the writer behind them are admitted too: nobody holds before all of his are.
func callers(admitted, rest int64) (held, waiting int64) {
	all := admitted + rest
	if all < queue.Readers {
		return admitted, rest
	}
	held = admitted / queue.Readers
	return held, all/queue.Readers + all%queue.Readers - held
}

// owned is how many places in line have an owner, and how many not: those are younger than the ticket delay, one for each unit.
func owned(places []fairlock.Place) (owned, young int64) {
	for _, p := range places {
		if p.Owner != nil {
			owned++
		} else {
			young++
		}
	}
	return owned, young
}

type busy struct {
	fairlock.LockSummary
	oldest time.Duration
}

func (q *Queues) read(ctx context.Context) (queues, error) {
	list, err := q.m.List(ctx)
	if err != nil {
		return queues{}, err
	}
	var all queues
	for _, l := range list {
		all.locks++
		if l.Kind == string(queue.KindRW) {
			l.Held, l.Waiting = callers(l.Held, l.Waiting)
		}
		if l.Waiting > 0 || l.Held > 0 {
			all.busy = append(all.busy, busy{LockSummary: l})
		}
	}
	slices.SortStableFunc(all.busy, func(a, b busy) int { return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Held, a.Held)) })
	for i := range all.busy {
		if i < q.opts.MostLocks {
			if err := q.look(ctx, &all.busy[i]); err != nil {
				return queues{}, err
			}
		}
		all.waiting, all.held, all.oldest = all.waiting+all.busy[i].Waiting, all.held+all.busy[i].Held, max(all.oldest, all.busy[i].oldest)
	}
	all.busy = all.busy[:min(len(all.busy), q.opts.MostLocks)]
	return all, nil
}

// look finds out who waits, if anybody does.
func (q *Queues) look(ctx context.Context, l *busy) error {
	if l.Waiting == 0 {
		return nil
	}
	info, err := q.m.Inspect(ctx, l.Name)
	switch {
	case errors.Is(err, fairlock.ErrNotFound), errors.Is(err, fairlock.ErrMalformed): // between the two reads
		return nil
	case err != nil:
		return err
	}
	if len(info.Waiters) > 0 && info.Waiters[0].Owner != nil { // one without is younger than the ticket delay
		l.oldest = info.Waiters[0].Owner.Age
	}
	if l.Kind == string(queue.KindRW) {
		holders, admitted := owned(info.Holders)
		waiters, rest := owned(info.Waiters)
		l.Held, l.Waiting = callers(admitted, rest+info.More)
		l.Held, l.Waiting = l.Held+holders, l.Waiting+waiters
	}
	return nil
}
