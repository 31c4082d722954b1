// Package queue is the order of a lock: its documents in the database and every write on them. It knows nothing of streams,
// leases or callers.
//
// # Idea
//
// A lock is a ticket lock (Mellor-Crummey and Scott, 1991) in one small document, which issues numbers and says how
// far it has admitted. To arrive is one atomic write that takes numbers; to leave is one atomic write that
// settles them. Tickets are documents beside it, by which others can see the queue and clear the dead; no grant waits for
// them.
//
// # Terms
//
//	number     int64, issued by the lock document, strictly increasing for ever: place in line and fencing token
//	range      consecutive numbers [lo, hi], issued by one arrival
//	arrival    one enqueue or successful try
//	settled    a number whose owner released it, gave it up, or was reaped; final, and idempotent as a set union
//	frontier   the highest admitted number; a range is admitted when its hi is at or below it
//	ticket     a document that says which session stands behind a range
//	tombstone  a document that a reaper wrote in place of a ticket that never came
//
// # Documents
//
// locks, one for each lock, _id its name:
//
//	kind, permits  what all users must agree on; permits is the capacity in units (numbers)
//	issued         the last number issued
//	settled        all numbers up to it are settled
//	done           sorted disjoint ranges settled out of order, above settled
//	frontier       the greatest x such that at most permits of the numbers in (settled, x] are not in done
//	arrivals       how many arrivals there were; reached: the newest of which something is settled
//	calls          grows with each settle that admits somebody who was waiting: the wake-up mark (calledAt: its time)
//	grace          ms; the longest time that any owner may trust a number without a ticket
//	last           for each of 16 slots of processes the newest arrival: {mark, hi, arrival, asked}
//	idleSince      present only while nobody holds or waits; a TTL index deletes the document a day later
//	told           settled and frontier in one field, as of the last time that frontier went up: for events (package waiter)
//	managed        true in a semaphore whose permits were set by hand: what users name does not count, and it is never idle
//	request        {n, upTo, by, at}: the newest request to those who hold, whose numbers are up to upTo
//	forces         how often a grant was unlocked by force; forced: the token of the last; audit: {token, session, by, reason, at} of the
//	               last 16
//	v              schema version, 1; of a higher one nobody takes numbers here, and nobody clears anything
//
// tickets, _id {lock, lo}, so sorted by it they are the queue: hi, session, arrival, weight (units for each waiter), at, labels,
// passed, puts; tomb in a tombstone, which has no session and covers the number lo alone.
//
// A mutex is permits 1 and weight 1. A semaphore of N is permits N; a read/write lock is permits C with readers of weight
// 1 and writers of weight C. The writes are the same. Whoever wants several units has consecutive numbers, and is granted when the last of
// them is admitted, so nobody overtakes a big request.
//
// The numbers of a new document start at max($$NOW, $$CLUSTER_TIME) in ms, times 1024, so that they go on increasing when an
// idle document was collected or a collection dropped. One hole is known: a document that is deleted while it is in use and made anew within
// the second, or while the primary's clock is behind cluster time (after a failover to a member whose clock lags), can begin where the
// old one began; $$CLUSTER_TIME has only seconds, and stands still until the clock has caught up.
//
// # Writes
//
//	enqueue  issue numbers; make the document if it is missing      findAndModify, upsert, filter _id
//	try      the same, if the numbers are at or below the frontier  findAndModify, upsert, filter _id
//	settle   union into done, absorb into settled, move frontier    updateOne, never an upsert
//	permits  change the permits of a semaphore                      findAndModify, upsert, filter _id
//	request  note who wants the lock                                updateOne
//	force    settle an admitted range of others, with an entry      updateOne, on the condition that it is admitted
//	collect  delete a document idle for a day                       TTL index, or Collect
//
// All are atomic on one document, all with write concern majority and journal set here and never inherited. All can be repeated.
// An enqueue carries a random mark, and the document remembers the newest mark of each slot: the same arrival sent again is found
// there and gets the numbers it got before. (Without it, an enqueue whose reply was lost in a failover would leave a number
// that nobody knows of, and everybody behind it would wait for a reaper.) If other processes of the slot arrived in between,
// the number is an orphan after all. Every acknowledged repeat changes the document (asked), because on a
// server that has been deposed and does not know it, a write that changes nothing is acknowledged at once and proves nothing.
//
// An arrival can name a limit on those who wait. It is judged in the same write, so a refusal has taken no number.
//
// Fewer permits: the frontier cannot go down (I2), since there may be processes that know it, and it may have promised numbers that nobody has
// yet. Those are issued to nobody and settled at once, in the same write. So whoever was admitted stays admitted, and the next is when less
// than the new permits are held.
//
// # What others wrote
//
// Whoever may write to the collections can put anything there. All that is read goes through decode.go, which lets no value pass on which
// arithmetic could overflow or a walk over numbers take for ever; the rest is passed over and reported. docs/security.md says
// what such a document can do.
//
// # Invariants
//
//	I1  A number is issued once; issued never decreases.
//	I2  frontier never decreases and obeys its definition.
//	I3  A number is settled only by its owner, or by a reaper after its session ended or its tombstone was written, or by an operator's
//	    force, which leaves an entry.
//	I4  At most permits units are trusted at one time, and never a settled one. (After permits were lowered: no more than were held then. After
//	    force, until the holder's process has heard of it: one more. Both are an operator's decision.)
//	I5  Grants of an exclusive lock have increasing numbers.
//	I6  Every number is settled in the end: a dead process delays the queue by at most one lease and one look of a reaper,
//	    and one failover if there is one.
//	I7  No waiter is stranded, whatever the stream does.
//	I8  After quiet there is one idle document for each lock, no ticket, no tombstone.
//
// I1 and I2 are properties of the single writes. I3 is kept by the callers of Settle: packages fairlock and reaper. I5
// follows from the definition of frontier with one permit: a number is admitted only when all before it are settled.
//
// # Failure
//
// Of any error that is not Permanent the outcome is unknown: not done, done, or still to be done. A failed write concern is such
// an error, although the server's reply carries a document; nothing is ever granted on it. Reads are at majority and may be
// old; since frontier and settled only grow, an old document can delay a grant and never make one. Absence of a document is
// proved only by a linearizable read (Gone).
package queue
