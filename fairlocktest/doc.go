// Package fairlocktest is fairlock without MongoDB, for the unit tests of programs that use fairlock. A [Server] is a database in
// memory, and a [Process] is one process that uses it: a real [fairlock.Manager], whose code is the one that runs in production, with a
// clock and a connection of its own that a test can disturb.
//
//	m := fairlocktest.New(t, nil)                     // one process
//
//	srv := fairlocktest.NewServer()                   // several
//	a, b := srv.Process(t, nil), srv.Process(t, nil)
//	a.Pause()                                         // ... and what goes wrong with them
//
// # Time
//
// All waiting is done with package time. Inside a bubble of [testing/synctest] time passes at once when everybody waits, so a test of an hour takes
// a millisecond, and [synctest.Wait] says when nothing moves any more: that is the recommended way. A server, its processes and all that
// calls them belong in the same bubble. Outside of one everything works as well, in real time; a Config.TTL of a second (the shortest)
// keeps waits for dead processes short.
//
// # What it is true to
//
// The same conformance suite runs over this package and over a MongoDB replica set (internal/conformance). In particular:
//
//   - the order of grants, tokens, and which errors come when
//   - leases: when a lock counts as lost, and when others can have it
//   - what [fairlock.Manager.Inspect] and [fairlock.Manager.List] show, also of places in line without an owner while Config.TicketDelay is not over
//   - Config.Prefix: managers with different prefixes do not see each other's locks
//
// # What it is not
//
//   - No network and no disk: a call takes no time, and fails only when a test says so. How long things take in production cannot be
//     measured here.
//   - No server: no failover, no privileges, no limits of size, no document of anybody else's, no index, nothing that is deleted a day later.
//   - No database for one's own data. Package fence needs one.
//   - One machine: processes differ in their sessions, and all have the host and process id of the test.
//   - Code of a process is the test's: when a process is paused or killed, its timers and the goroutines of the test go on. See [Process.Pause] and
//     [Process.Kill] for what they meet.
package fairlocktest
