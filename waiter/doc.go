// Package waiter wakes those who wait. One change stream on the locks collection serves a whole process; what it says is
// passed on by lock name. It decides nothing: a grant is the caller's conclusion from the document.
//
// # What wakes
//
// A settle that admits somebody who was waiting increments calls, and its change event carries settled and frontier after
// it. That one write is release and wake-up in one. The stream is filtered on the server to such events and to deletions.
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
// # What stands in
//
//   - The slow re-check reads all locks that are waited for every two seconds, in one read: a stream can go silent without an
//     error (I7). It should almost never be what grants, and Stats counts when it is.
//   - A watchdog ends a stream that has not returned in time.
//   - Whatever error ends a stream, the next is opened afresh and safely, and never resumed: the queue is state, so there is nothing
//     to catch up with but the state. The first at once, then at most one a second with growing pauses. Meanwhile the re-check
//     runs four times a second.
//   - Poll mode, without a stream, where the server has none, or where the user's connection pool has no connection for it.
//
// # Goroutines
//
// check (re-check, catch-up, polling) and pump (the stream) are one shift: they start with the first waiter and end Linger after
// the last, or at Close, which waits for them. The stream belongs to pump alone: it is closed after its last call has
// returned, with a context that is alive, since closing during a call panics in the driver and closing with a dead context
// leaves the cursor on the server. Calls to the stream use TryNext: a Next that runs into its context's end is dead for good.
package waiter
