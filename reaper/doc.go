// Package reaper is about life and death: the lease of this process and how far it can trust it, and clearing what dead
// processes left in line.
//
// # Sessions
//
// A process has one session document, whatever it holds or waits for, and renews it every third of its ttl:
//
//	_id        ULID
//	beat       grows with every renewal, so that every acknowledged renewal was a real change
//	ttl        ms
//	expiresAt  $$NOW + ttl at the last renewal; for people, and half of the evidence for an end
//	ended      set once, never unset; endedAt: a TTL index deletes the document a day later
//	cleared    its tickets have been cleared
//	startedAt, host, pid, label
//	forced     {lock, token} of the last 64 grants of the process that were unlocked by force: the reply to a renewal brings them
//
// # Trust
//
// A holder judges by its own clock, without needing a reply: the session is trusted until
//
//	(time of sending the last acknowledged renewal) + ttl - margin
//
// A renewal that is not answered within half of the shorter of a third of ttl and the time-out of a call is sent again beside it, so that
// a call into the silence of a primary that was deposed does not keep the lease from the one elected since; each counts from its own
// sending. Who was unlucky renewed a third of ttl before an outage, so what it outlives for sure is ttl - margin - ttl/3, less that half.
//
// With a lock-delay both ttl and margin are longer by it: others wait longer, the holder trusts no longer, and it renews as before.
//
// The clock counts time asleep and does not follow the wall clock back (internal/clock). A renewal that finds its session ended,
// or gone, ends it for this process; that only ever makes it stop, so it may rest on an old reply.
//
//	      until passes            renewal acknowledged
//	Live ──────────────► Lapsed ──────────────────────► Live
//	  │                     │
//	  └──── no match ───────┴────────► Ended, for ever
//
// A lapse is counted before trust can come back, so that whoever held through it sees it even if the process slept over the
// whole of it: what was held is lost, what waits keeps its place.
//
// # Evidence
//
// A reaper acts on positive and permanent evidence only: an ended session, a tombstone. Everything that it reads may be old.
//
// Ending a session: this process has seen the beat unchanged for the whole ttl on its own clock, and then the write itself
// requires the same beat, no end, and expiresAt before the server's time. The owner sent that beat before it was seen, so
// its trust has ended, margin ago. A server clock that jumps cannot cause this alone, and delays it by a ttl at most: an expiresAt
// more than a ttl ahead is of a clock that was set back, and says nothing. A process that could not renew its own lease
// until less than a third of its trust was left forgets the beats that it has seen, while that lasts and once more when it is over: in
// an outage nobody renews, and the first to come back must not end those who had renewed earlier before it.
//
// Orphan numbers: issued, and no ticket (the process died in between, or the reply was lost). When a gap has stood for the
// grace that the lock document names, on this process's own clock and on the server's, tombstones are written at every number of it, then the tickets
// are read again, and the numbers that a tombstone and no ticket covers are settled. The unique _id decides between a late owner
// and the tombstone. The void rule on the owner's side closes the rest: a ticket acknowledged later than grace - margin
// after the enqueue was sent is not believed, because by then the tombstone may have come, settled the number, and been
// swept away. Without tombstones a stale read makes two holders; without the void rule a settled number is granted (both found
// by the model checker).
//
// A ticket whose session has no document (dropped by hand): absence proves nothing, so after a wait an ended session is
// written in its place; from then on it is a fact.
//
// # Who looks
//
// Whoever waits looks at those before it: a waiter near the head every tenth of the ttl, one far back less often in
// proportion, so that the looks of n waiters cost as n and not as n squared. All tickets of dead sessions before it are settled in
// one write, and gaps as runs: a crash of many costs one lease. For locks nobody waits for there is the sweep, which also deletes
// tickets of settled numbers; it is done by whoever holds a fairlock lock for it, and everybody else watches that holder.
//
// # Goroutines
//
// Lease.run renews; each renewal on its way has a goroutine of its own, four at most, so that a lapse is noted meanwhile. Reaper.Run does
// everything else. Both end with their context and are waited for.
package reaper
