// Package gateway serves fairlock's locks over HTTP: to programs in any language, and to fleets too large for a change stream each. All clients of
// one gateway share one [fairlock.Manager], with its one session and its one stream, and their arrivals combine as those of goroutines do.
//
//	s, err := gateway.New(manager, &gateway.Config{Clients: clients})
//	...
//	go s.Serve(listener)
//	...
//	err = s.Close(ctx) // tells every client, and hands every lock on
//
// docs/gateway.md is the guide for those who use it, openapi.yaml (served at /openapi.yaml) the description of every request and answer. This is
// how it works inside.
//
// # Leases
//
// What a client has is a lease: one place in line that becomes one hold. The client chooses its id, so that a request repeated after a
// lost reply finds the lease that the first one made and takes no second place. Ids belong to the client whose token came with them: nobody else
// sees the lease.
//
//	            granted             DELETE                given back
//	waiting ─────────────► held ─────────────► releasing ────────────► released
//	   │                     │                     │
//	   │ DELETE, refused,    │ lock lost, not      │ it turns out to have
//	   │ wait limit, not     │ heard of in time,   │ been lost before
//	   │ heard of, closing   │ closing             │
//	   ▼                     ▼                     │
//	  left                 lost ◄──────────────────┘
//
// The table is moves in lease.go; every transition is one call of moveLocked, under lease.mu, made by whoever decides it: what a client was told is what the
// state was, and no reply says held after the decision to end the hold. A state on the lower line or at the right end is final. A lease that is over is kept for
// a minute, and at most as many as may live (past.go: those of the client that has most go first), so that its client learns how it ended and a
// delayed repetition does not take the lock anew.
//
// # Being heard of
//
// A lease lives while its client is heard of. It names a heartbeat time h. It is heard of at the arrival and at the answer of each request that names
// it (but not of GET, which only looks), and while a long poll for it or, unless it wants heartbeats only, an event stream of it is open. When h has passed since
// it was last heard of, it ends: a place is left, a hold is handed on.
//
//   - A stream of a held lease is written to every h/4, and the connection is given up when that was not acknowledged for another h/4 (Linux;
//     peer_linux.go). A stream that broke is therefore a client last heard of at most h/2 ago: it has h/2 to come back.
//   - A poll whose client is gone is not noticed, but the grant ends it, and from there on h counts.
//
// So a client that vanishes at any moment delays the next by at most h. What it may believe meanwhile is bounded by leftMs in every answer that says held: for so long
// after it *sent* the request it is sure to be the holder, since the gateway gives up later than that whatever it hears, and since fairlock.Lock.Left is
// part of it. A tenth of h is left between the two for what runs late.
//
// # Order
//
// A lease's place in line is that of its call of Manager.Lock in the order of calls. No answer is written before the call is in line
// (fairlock.InLine), so whoever asks after another one has had an answer stands behind it.
//
// # What a client can cost
//
// A connection, for a bounded time: each read and each write has a limit. A header has 5 s and a body 10 s to come. An answer has 10 s to be taken, and as
// much before that for what is left of a body; WriteTimeout stands behind all of them, and cannot be shorter than the longest poll. A write on an
// event stream has a quarter of the heartbeat time, and what lies between two writes has no limit, which on HTTP/2 must be said. Leases are bounded, in all and
// for each client, and so are watchers and requests that read queues; connections, in all and, if that is set, for each address; and so are leases that are
// over, and streams of one.
//
// # Goroutines
//
// All belong to the Server, and Close waits for them.
//
//   - one for each lease that is not over (lease.run): it calls Lock, waits for the end of the hold, calls Unlock
//   - one for each request, net/http's: it only looks at leases and waits for their changes. A hold does not depend on it.
//   - the feed (feed.go): reads the queues for the status page, only while somebody looks
//
// Timers do what is due by time: one for each lease, stopped when it is over.
//
// Mutexes are taken in the order lease.mu, Server.mu, and no mutex is held across a call that blocks.
//
// # Closing
//
// Close refuses what is new, and ends what waits and then what is held. It gives a lock back when its client was sent the last event of the stream by
// which it holds, has said by DELETE that it has stopped, or when the longest leftMs that it was told is over, whichever comes first: the next in line, on
// whatever gateway, then goes on at once. Until all are given back requests are answered, so that whoever has no stream hears of it at its next heartbeat.
package gateway
