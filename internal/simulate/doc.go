// Package simulate runs the real code of managers, lines, queues, waiters and reapers on a simulated store, stream and clock, and
// lets go wrong what can. A schedule follows from one number, its seed; what comes of it is judged by package history and by what
// can be read off the documents. It is a test: see TestSchedules, TestReplay and, for the long run, make simulate.
//
// # A schedule
//
// [NewPlan] draws from the seed two to five processes with leases of 1 to 3 s, up to three locks (mutexes, and pools of several
// permits), 8 to 29 calls of Lock and TryLock with what their callers do then, and faults. [Run] lets it happen in a bubble of
// testing/synctest, where hours take milliseconds. After two to six seconds everything is whole again. Then every call of a living
// process must return (I7), what the dead left must be cleared within five minutes (I6), and when all have closed, nothing
// may be left (I8). Three in five schedules have more: a read/write lock, a semaphore whose units are given back in parts, and calls of LockAll
// ([PlainPlan] is the plan without), and half of those in which nobody deletes documents have operators: locks are unlocked by force, permits are
// set, holders are asked to give locks back and mostly do, and have a lock-delay ([UsersPlan] is the plan without). A write on a lock document that breaks I1 or I2, or the deletion of a ticket whose numbers are not settled, is
// a violation at once.
//
// # Faults
//
//	crash      at any write, before it takes effect, after it with the reply lost, or with the write still under way
//	close      in order, with a new process in its place
//	cut        no answers for one process; what was sent takes effect, or not, or up to 3 s after the caller gave up
//	failover   the same for everybody, streams end, and writes take 2 s each for a while
//	lossy      calls fail before or after the effect, or are seconds late; all kinds, or one kind of write, now and then or always
//	slow       writes take up to 2 s
//	stale      reads show the past, and so do answers of writes that would change nothing there
//	stopped    a process stands still between two instructions, with its deadlines, and goes on (SIGSTOP, suspension)
//	jump       a process's clock gains, less than the least margin in sum
//	wall       the server's clock is off by up to a day, ahead or behind
//	streams    that end, are silent, repeat or drop events
//	deletions  of lock, ticket and session documents and of the whole collection of locks, in schedules of their own
//
// A rollback is not among them, since it cannot be told from these. fairlock writes and reads at majority: a write that is rolled back was
// acknowledged to nobody and seen by nobody, so for all processes it is a write that did not happen and whose sender waited long for an error
// ("cut", "failover"); and what a deposed primary still answers is "stale".
//
// With deleted lock or ticket documents the rules of exclusion, tokens and order are left out: a lock without a document is free for whoever
// comes, while its holder hears of that at its next look; a ticket that was deleted is missing to a reaper before its owner
// has written it again. The server's clock stays right where locks are deleted: while it is behind the cluster's time, a document that is
// deleted and made anew begins at the same number again (the hole that package queue names; seed 200856 showed its width). A deleted session costs its owner what it holds; its windows then end where it was told (history.Options.Revoked).
//
// # The same again
//
// The plan is drawn beforehand. What is decided on the way (how long a call takes, what is lost) follows from seed, process, kind of call
// and how often it was made, so it does not depend on the order of goroutines; and since each delay is a number of nanoseconds of
// its own, hardly two goroutines ever run at the same time. The chance that fairlock itself needs comes from the seed too (package
// chance). The test binary runs on one processor. What is left to the runtime is the order of maps and of timers of one instant: 98 to
// 100 of 100 histories are the same in a second run. Under the race detector, which shuffles goroutines, 95 of 100 are.
package simulate
