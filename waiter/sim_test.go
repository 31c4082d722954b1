package waiter

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
)

// simQueue is processes that take one lock, which width can hold at a time, again and again without a pause, on simulated time. A process learns of the others only what
// its own reads show, or a stream while it listens, and does what its pace says.
type simQueue struct {
	sums
	rng             *rand.Rand
	now             time.Duration
	todo            todo
	issued, settled int64
	width           int64
	procs           []*simProc
	hold            func() time.Duration
	steps           uint64
}

// sums are what happened since they were reset.
type sums struct {
	grants, reads, slept, opened int
	free                         time.Duration // while the next holder did not know, of all places together
}

type simProc struct {
	q         *simQueue
	pace      pace
	num       int64
	waits     bool
	turn      time.Duration // when its turn came
	listening bool
}

const (
	readTime  = 400 * time.Microsecond
	eventTime = 500 * time.Microsecond
)

func newSimQueue(n int, width int64, hold time.Duration) *simQueue {
	q := &simQueue{width: width, rng: rand.New(rand.NewPCG(1, uint64(n))), hold: func() time.Duration { return hold }}
	for range n {
		p := &simProc{q: q, pace: pace{width: width}}
		q.procs = append(q.procs, p)
		q.after(time.Duration(q.rng.IntN(50))*time.Millisecond, p.enqueue)
	}
	return q
}

// run lets time pass.
func (q *simQueue) run(d time.Duration) {
	end := q.now + d
	for len(q.todo) > 0 && q.todo[0].at < end {
		e := heap.Pop(&q.todo).(step)
		q.now = e.at
		e.do()
	}
	q.now = end
}

// write is how long a majority write takes: about 5 ms, and now and then much longer.
func (q *simQueue) write() time.Duration {
	d := 4*time.Millisecond + time.Duration(q.rng.ExpFloat64()*1.5*float64(time.Millisecond))
	if q.rng.IntN(500) == 0 {
		d += time.Duration(q.rng.IntN(200)) * time.Millisecond
	}
	return d
}

func (p *simProc) enqueue() {
	q := p.q
	q.after(q.write(), func() {
		q.issued++
		p.num, p.waits, p.turn = q.issued, true, 0
		if p.ahead() == 0 {
			p.turn = q.now
			p.grant()
			return
		}
		p.pace.start(clock.Instant(q.now), p.ahead())
		p.next()
	})
}

func (p *simProc) ahead() int64 { return max(p.num-p.q.width-p.q.settled, 0) }

// next does what the pace says.
func (p *simProc) next() {
	q := p.q
	plan := p.pace.next(clock.Instant(q.now), p.listening)
	if plan.listen {
		if !p.listening {
			p.listening = true
			q.opened++
			q.after(readTime, p.heard) // the read that goes with an opening
		}
		return
	}
	p.listening = false
	num := p.num
	q.after(plan.doze+readTime, func() {
		if !p.waits || p.num != num {
			return
		}
		q.reads++
		if p.ahead() == 0 {
			if p.pace.ended(plan.doze) {
				q.slept++
			}
			p.grant()
			return
		}
		p.pace.look(clock.Instant(q.now), p.ahead())
		p.next()
	})
}

// heard is an event, a little after the change.
func (p *simProc) heard() {
	switch {
	case !p.waits:
	case p.ahead() == 0:
		p.grant()
	default:
		p.pace.look(clock.Instant(p.q.now), p.ahead())
		p.next()
	}
}

func (p *simProc) grant() {
	q := p.q
	p.waits = false
	q.grants++
	q.free += q.now - p.turn
	q.after(q.hold()+q.write(), func() {
		q.settled++
		for _, o := range q.procs {
			if o.waits && o.ahead() == 0 && o.turn == 0 {
				o.turn = q.now
			}
			if o.waits && o.listening {
				q.after(eventTime, o.heard)
			}
		}
		p.enqueue()
	})
}

// step is something that will happen; todo is a heap of them, in the order of time and then of making.
type step struct {
	at time.Duration
	n  uint64
	do func()
}

type todo []step

func (q *simQueue) after(d time.Duration, do func()) {
	q.steps++
	heap.Push(&q.todo, step{q.now + d, q.steps, do})
}

func (t todo) Len() int           { return len(t) }
func (t todo) Less(i, j int) bool { return t[i].at < t[j].at || t[i].at == t[j].at && t[i].n < t[j].n }
func (t todo) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *todo) Push(x any)        { *t = append(*t, x.(step)) }
func (t *todo) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	*t = (*t)[:last]
	return x
}
