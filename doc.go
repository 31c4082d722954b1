// Package fairlock is a distributed lock on a MongoDB replica set that waits in line instead of trying in a loop.
//
// A caller takes a number from the lock's document with one atomic write, and is admitted when everybody before it has left:
// strictly first in, first out, across processes. Leaving is one atomic write too, and the change event of
// that write wakes exactly the next in line. The number is also the fencing token. A process has one lease, renewed as
// a whole; when it dies or is cut off, others clear what it left within that lease, and its own code is told before.
//
//	m, err := fairlock.New(ctx, client.Database("app"), nil)
//	...
//	lock, err := m.Lock(ctx, "invoices")
//	...
//	defer lock.Unlock(ctx)
//
// Semaphores, read/write locks, several locks at once and elections ([Manager.Semaphore], [Manager.RWLock], [Manager.LockAll],
// [Manager.Election]) are the same queue: a number for each unit, and whoever wants several has consecutive ones.
//
// # Packages
//
//   - fairlock, this one, is what users call: managers, locks, options, errors.
//   - [github.com/fairlock/fairlock/queue] is the order: the documents of locks and tickets, and their writes.
//   - [github.com/fairlock/fairlock/waiter] is waking up: the change stream, and what stands in for it.
//   - [github.com/fairlock/fairlock/reaper] is leases, trust in them, and clearing the dead.
//   - [github.com/fairlock/fairlock/fence] is writes to one's own documents that refuse an older holder.
//   - [github.com/fairlock/fairlock/fairlocktest] is all of it in memory, for the tests of programs that lock.
//
// queue, waiter and reaper begin with their parts of the protocol in their doc.go; docs/design.md has the whole. Invariants
// I1 to I8 are stated in package queue.
//
// # Inside a process
//
// A line is the local end of one lock's queue, and exists while there is a call for it. Calls that arrive while an
// enqueue is on its way share the next one, which takes as many numbers as there are calls. Numbers of this process that
// follow one another are a run: inside it the lock is passed on without a write, since settling
// a number of the run would admit the next of the same run and nobody else. The run is settled once, when its last caller
// has left.
//
//	          ask            reply              frontier >= number,
//	       ┌───────► asked ─────────► queued ──── trusted ────► held
//	pending◄───────────┘  failed        │ │                      │
//	   ▲└──────────────────────────────-┼─┼──────────► over ◄────┘
//	   │        cancelled               │ │ cancelled     Unlock, lost
//	   └────────────────────────────────┘
//	      numbers void: session ended, ticket too late, document gone
//
// A grant needs two things: the fact that the number is admitted, read from a majority-committed document; and trust: that no
// reaper can have settled it meanwhile, which this process knows from its own clock alone. What a held lock needs to go on is
// the second: the session has been trusted without a break since the grant, and the ticket was acknowledged in time, or the time
// in which no reaper can have missed it is not over.
//
// # Numbers that others have settled
//
// Only the claims with such numbers are void; the rest of the run goes on. With one permit settled shows them. With several they are settled out
// of order, and the frontier has passed over them: a process that went on counting one of them as its own capacity would let one too many
// in. A reaper settles only what this process does not trust any more, so what is left is an operator's force. The document counts those,
// and a line that sees the count go up reads which numbers are settled before it uses a frontier again (forced.go).
//
// # Goroutines
//
// User goroutines wait on channels only, never inside a driver call; and no mutex is held across one. All goroutines belong to
// a Manager, and Close waits for them.
//
//   - one for each database call: an enqueue (at most one for a lock), a settle (until its outcome is known), a
//     ticket write, a look at a lock document after a force
//   - the ticket keeper: starts ticket writes when they are due
//   - the audit: compares what is held with what the database says, three times a lease
//   - requests: reads the locks whose holders want to know when they are asked for, once a second, while there are such holders
//   - the lease: renews the session (package reaper); the reaper: looks at those ahead in line, and sweeps
//   - the observer's, if there is one: it makes the calls of Config.Observer that are about no call of a user's
//   - the watcher's two: the change stream and the slow re-check (package waiter), only while somebody waits
//
// Locks are taken in the order line.mu or requests.mu, then one of Manager.mu, Lock.mu, keeper.mu, Watcher.mu, which are leaves.
package fairlock
