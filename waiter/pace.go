package waiter

import (
	"math"
	"time"

	"github.com/fairlock/fairlock/internal/clock"
)

// Who listens and who dozes. A stream costs the primary CPU for each entry of its log, and each event wakes its process, so
// where a queue moves fast only reads that are well timed stay cheap with many waiting processes; where it moves slowly or
// stands, a stream costs next to nothing and is the only thing that is quick.
const (
	// A queue is one to doze in when an arrival takes less than fastBase and fastEach for each arrival that was ahead when the wait
	// began, and slowest at the most. An event costs a listener about a quarter of a millisecond of CPU, its own and the
	// servers', so this is about where all listeners together take a core. In slower queues dozing is the worse choice:
	// what an arrival takes varies, and a turn that comes during a doze is late by more.
	fastBase = 7 * time.Millisecond
	fastEach = 300 * time.Microsecond
	slowest  = 50 * time.Millisecond
	// quick: at this pace or a faster one a few reads for the last step cost less than opening a stream for it, and are
	// hardly later.
	quick = 25 * time.Millisecond
	// keepMost: an open stream is kept by a waiter with at most this many arrivals ahead, whatever the pace: it hears of
	// no more events than it would have to read.
	keepMost = 4
	// openMost: in a queue of which nothing is known, a waiter with at most this many arrivals ahead listens.
	openMost = 2
	// firstGuess is the pace of a queue of which nothing is known: about one majority write for each arrival.
	firstGuess = 2 * time.Millisecond
	// longestDoze bounds what a sudden change of pace can cost those far back.
	longestDoze = time.Second
	// A queue that has not moved for standsAtLeast, and for as long as standsSteps arrivals take, stands.
	standsAtLeast = 100 * time.Millisecond
	standsSteps   = 8
	mostSlowRuns  = 4
	// Between two reads of those who are next.
	shortestDoze = 700 * time.Microsecond
	nearDoze     = 2500 * time.Microsecond
	longestStep  = 20 * time.Millisecond
)

// pace is what a process knows of how fast a queue moves in which it waits.
type pace struct {
	ahead    int64         // arrivals before ours at the last look
	width    int64         // how many like ours can hold at a time, at least 1
	others   int64         // and when the wait began, which is about how many contend
	moved    clock.Instant // when the queue was last seen to move, or first looked at
	per      time.Duration // what an arrival takes when all goes well; 0: not known
	caution  float64       // from 0 to 0.6: how much of each doze is left out, for having overslept
	stood    bool          // it stood, and has not been seen to move fast since
	fastRuns int           // moves in a row that were fast, while it was not known to move fast
	fastSum  time.Duration // what their arrivals took
	slowRuns int           // looks in a row that showed more than twice per, and a slow queue
}

// start begins with a new place in line. What was known of the pace stays.
func (p *pace) start(now clock.Instant, ahead int64) { p.ahead, p.moved, p.others = ahead, now, ahead }

// fast is the pace above which the queue is to be listened to.
func (p *pace) fast() time.Duration { return min(fastBase+time.Duration(p.others)*fastEach, slowest) }

// look takes in how many arrivals are ahead now.
func (p *pace) look(now clock.Instant, ahead int64) {
	k := p.ahead - ahead
	if k == 0 {
		return
	}
	if k < 0 {
		p.start(now, ahead)
		return
	}
	took := now.Sub(p.moved)
	p.ahead, p.moved = ahead, now
	took /= time.Duration(k)
	if p.stood || p.per == 0 {
		if took > p.fast() {
			p.stood, p.fastRuns = true, 0
			return
		}
		if p.fastRuns++; p.fastRuns == 1 {
			p.fastSum = 0
		}
		p.fastSum += took
		if p.per == 0 || p.fastRuns >= 3 {
			p.stood, p.per = false, p.fastSum/time.Duration(p.fastRuns)
		}
		return
	}
	p.reckon(took, k)
}

// reckon follows a faster pace soon and a slower one hardly. What makes a queue slow is often a pause that is over when it is seen, or
// others that overslept: to believe it makes this process oversleep in turn, which makes the queue slow, and it never gets
// out of that again (TestPaceInASimulatedQueue shows it with equal weights). Few arrivals say nothing: two may have fallen
// between two looks by chance.
// But when look after look shows a pace that is far slower, the queue is another one than before.
func (p *pace) reckon(took time.Duration, k int64) {
	if took <= max(2*p.per, p.fast(), 2*p.step(p.per)) {
		p.slowRuns = 0
	} else if p.slowRuns++; p.slowRuns == mostSlowRuns {
		p.stood, p.fastRuns, p.slowRuns = true, 0, 0
		return
	}
	w := 0.4
	switch {
	case k < 3:
		return
	case took > p.per && p.width <= 1:
		w = 0.1
	case k >= 8:
		w = 0.6
	}
	p.per += time.Duration(w * float64(took-p.per))
}

// ended takes in how a wait ended: slept says that the turn came during a doze. Who oversleeps makes the queue slow for all, and
// then the pace that all see is no measure of what it could be.
func (p *pace) ended(slept time.Duration) (overslept bool) {
	if slept <= max(p.per, p.step(p.per))*3/2 {
		p.caution *= 0.97
		return false
	}
	p.per = min(p.per, slept/time.Duration(max(p.ahead, 1))*4/5)
	p.caution = min(p.caution+0.15, 0.6)
	return true
}

// soon reports whether the turn can be expected within d.
func (p *pace) soon(now clock.Instant, d time.Duration) bool {
	return p.per > 0 && !p.stood && time.Duration(p.ahead)*p.per-now.Sub(p.moved) <= d
}

// plan is what a waiter does next: listen, or read again after a while.
type plan struct {
	listen bool
	doze   time.Duration
}

// next decides. open says that the process has a stream open.
func (p *pace) next(now clock.Instant, open bool) plan {
	still := now.Sub(p.moved)
	per := max(p.per, firstGuess/2)
	if p.per == 0 {
		per = firstGuess
	}
	if p.per > p.fast() || still > max(standsAtLeast, standsSteps*per) {
		p.stood, p.fastRuns = true, 0
	}
	switch {
	case p.stood,
		open && p.ahead <= keepMost,
		p.per == 0 && p.ahead <= openMost,
		per > quick && p.ahead <= 1:
		return plan{listen: true}
	}
	step := p.step(per)
	if p.ahead <= 1 && still >= per/2 || still > 2*per {
		return plan{doze: max(step, min(per/8, nearDoze), still/8)}
	}
	if p.ahead <= 1 {
		return plan{doze: max(step, per/2-still)}
	}
	// Wake early: the pace varies.
	steps := float64(p.ahead - 1)
	early := min(steps/5, 1+1.5*math.Sqrt(steps))
	if p.width > 1 {
		early = min(early, float64(p.width)/8)
	}
	steps -= early
	steps *= 1 - p.caution
	return plan{doze: min(max(time.Duration(steps*float64(per)), step), longestDoze)}
}

// step is the shortest doze. Where width hold at a time, each of their places changes hands once in width arrivals, so a reader who is late by
// an eighth of that time costs an eighth of what it could at most, as with one place who is late by an eighth of an arrival.
func (p *pace) step(per time.Duration) time.Duration {
	if p.width <= 1 {
		return shortestDoze
	}
	return min(max(shortestDoze, time.Duration(p.width)*per/8), longestStep)
}
