package simulate

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlock/fairlock/queue"
)

// more draws what else there is to a schedule, from chance of its own, so that the plain plan of a seed stays what it was: read/write locks,
// semaphores whose units are given back in parts, and LockAll. Two schedules in five have none of it.
func (p *Plan) more() {
	r := &planner{rand.New(rand.NewPCG(uint64(p.Seed), 0x6d6f7265)), *p}
	if r.chance(0.4) {
		return
	}
	// Appending must not write into the plain plan.
	r.p.Locks, r.p.Jobs = slices.Clone(p.Locks), slices.Clone(p.Jobs)
	drawn := []func(){r.readers, r.weights, r.sets}
	r.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	for _, draw := range drawn[:pick(r, 1, 1, 2, 3)] {
		draw()
	}
	*p = r.p
}

// lock adds a lock, and returns its number.
func (r *planner) lock(name string, shape queue.Shape) int {
	r.p.Locks = append(r.p.Locks, LockPlan{Name: name, Shape: shape})
	return len(r.p.Locks) - 1
}

// further adds n jobs, mostly in bursts, so that there are queues.
func (r *planner) further(n int, change func(*Job)) {
	bursts := []time.Duration{0}
	for range 1 + r.IntN(3) {
		bursts = append(bursts, r.between(0, r.p.Window*3/4))
	}
	for range n {
		j := Job{
			Slot: r.IntN(len(r.p.Procs)), Units: 1, At: pick(r, bursts...) + r.between(60*time.Millisecond, 300*time.Millisecond),
			Hold: r.between(0, pick(r, 5*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond)),
			Step: r.between(20*time.Millisecond, 400*time.Millisecond),
		}
		r.vary(&j, 0.1)
		change(&j)
		r.p.Jobs = append(r.p.Jobs, j)
	}
}

// readers is a read/write lock that is read a lot and written now and then.
func (r *planner) readers() {
	l := r.lock("rw", queue.RW)
	write := pick(r, 0.1, 0.25, 0.5)
	r.further(8+r.IntN(14), func(j *Job) {
		j.Lock, j.Try = l, r.chance(0.15)
		if r.chance(write) {
			j.Units = queue.Readers
		}
	})
}

// weights is a semaphore with requests of all sizes, some of which are given back bit by bit.
func (r *planner) weights() {
	permits := int64(2 + r.IntN(11))
	l := r.lock("sem", queue.Shape{Kind: queue.KindSemaphore, Permits: permits})
	r.further(6+r.IntN(12), func(j *Job) {
		j.Lock, j.Try = l, r.chance(0.15)
		j.Units = 1 + r.Int64N(pick(r, 1, permits/2+1, permits))
		if r.chance(0.4) {
			j.Part = 1 + r.Int64N(3)
			j.Hold += 20 * time.Millisecond
			j.Step = j.Hold / 4
		}
	})
}

// sets is calls of LockAll, of names that others lock one by one, and others besides.
func (r *planner) sets() {
	var names []int
	for i, l := range r.p.Locks {
		if l.Shape == queue.Mutex {
			names = append(names, i)
		}
	}
	for _, name := range []string{"x", "y", "z"} {
		names = append(names, r.lock(name, queue.Mutex))
	}
	r.further(5+r.IntN(9), func(j *Job) {
		r.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
		j.All = slices.Clone(names[:min(len(names), pick(r, 1, 2, 2, 3, 4))])
		j.Lock = j.All[0]
	})
}
