// Package waiter wakes those who wait: by a change stream on the locks collection, one for a whole process, or by reads that are
// timed by the pace of the queue. What either says is passed on by lock name. It decides nothing: a grant is the caller's
// conclusion from the document.
//
// # What wakes
//
// A settle that admits somebody who was waiting increments calls, and its change event carries settled and frontier after
// it, or told, which is both, where settled has not changed: a frontier alone would not say whether the document was made anew. That one write is release and wake-up in one. The stream is filtered on the server to such events and to deletions.
// Events arrive only when a majority has the write, so what they say is fact.
//
// The server logs a replacement instead of an update when the difference would be larger than the document, which happens
// with documents this small; those are let through as well. The full document is never looked up: it could be newer or gone,
// and too large an event ends a stream.
//
// # Safe opening
//
// Opening a stream and then reading loses events, and so does reading and then opening: a stream without a start point begins
// after the last operation that its node has applied, a majority read may be older than that, and the operation time of a read
// may be newer than what it saw. The opening that loses nothing: in one causally consistent session, run a command and keep its
// operation time T; open the stream at T; read the locks in the session, so no earlier than T. Whatever was committed up to
// T is in the read, whatever came after is in the stream. Duplicates do no harm.
//
// A lock that begins to be waited for while a stream is open needs no read if its number was asked for after T was
// known: its events come after T. Otherwise it is read once (catch-up).
//
// A stream is filtered by name when nearly all of its events are of locks that nobody here waits for. A stream's filter is
// for good, so a lock outside it has the stream opened anew.
//
// # Near listens, far dozes
//
// An open stream costs the primary about 13 us of CPU for each entry of its log, and each event wakes its process. With a stream
// in every waiting process one hand-off of a fast queue costs CPU in proportion to those who wait. So each lock that is
// waited for is in one of two ways (pace.next):
//
//	listen  the queue stands, or moves slowly, or a stream is open and the head at most keepMost arrivals away: an event tells
//	doze    the queue moves fast for its length (9 ms an arrival with 8, 45 ms with 128): the lock is read when the turn is
//	        expected, a little early
//
// The distance is counted in arrivals (Wait, Ahead); the pace is what an arrival took lately. A dozer sleeps four fifths of
// distance times pace, at most a second, reads, and plans anew; the last step is read for every millisecond or so. A read costs
// the machine 0.3 ms of CPU, an acquisition takes 5 to 7 of them, whatever the number of processes. When nothing moves any more (100 ms, and
// eight times the pace) the dozer listens, and dozes again after three quick moves in a row. A stream to which nobody
// listens is closed; while nobody waits at all it stays open for Linger.
//
// Where several hold at a time (width), each of their places changes hands once in width arrivals, and one who is late delays only his own: the
// last steps are longer in proportion, and the pace is the mean.
//
// A turn that comes during a doze delays everybody, so it must be rare: Overslept counts. The trap is that oversleeping makes the queue
// slow, and who then takes the pace for slow oversleeps the more, for ever. Therefore the pace follows a slowdown by a tenth
// for each look and a speed-up by more than a half, and whoever overslept is cautious for a while.
//
// # What stands in
//
//   - The slow re-check reads all locks that are listened for every two seconds (those of callers far back every ten), in one read: a
//     stream can go silent without an error (I7). It should almost never be what grants, and Stats counts when it is.
//   - A watchdog ends a stream that has not returned in time.
//   - Whatever error ends a stream, the next is opened afresh and safely, and never resumed: the queue is state, so there is nothing
//     to catch up with but the state. The first at once, then at most one a second with growing pauses. Meanwhile the re-check
//     runs four times a second.
//   - Poll mode, without a stream, where the server has none, where the user's connection pool has no connection for it, or where
//     the database's user may not open one.
//
// # Goroutines
//
// check (dozers' reads, re-check, catch-up, polling) and pump (the stream, while somebody listens) are one shift: they start with the first waiter and end Linger after
// the last, or at Close, which waits for them. The stream belongs to pump alone: it is closed after its last call has
// returned, with a context that is alive, since closing during a call panics in the driver and closing with a dead context
// leaves the cursor on the server. Calls to the stream use TryNext: a Next that runs into its context's end is dead for good.
package waiter
