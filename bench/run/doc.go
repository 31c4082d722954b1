// Package run makes contenders contend: it starts them as processes, one client in each, and measures what they and their
// server do.
//
// # A run
//
//	start    N processes, a few at a time; each says when it is connected
//	floor    the server's floor, with all contenders connected and still
//	go       all begin at once: Lock, hold, Unlock, and again, without a pause
//	warm-up  not counted
//	window   at both its edges the harness takes CPU and operation counters and tells contenders to mark their own
//	stop     waits are cancelled, locks given back
//	floor    again, when all have ended
//
// # What is counted when
//
// An acquisition counts if its grant lies in the window, by its own stamp. CPU of servers and contenders is read from /proc at
// the window's edges, so it covers exactly the window, but for the milliseconds that reading takes. The counters of Go contenders are taken
// when they read "mark", at the edges too, and divided by the grants in the window. Other contenders count from go to stop, and
// are divided by all their grants in that time.
//
// # What is not measured
//
// Everything shares one machine, so a lock that burns CPU slows its own server. That is a property of the set-up which the ratios keep in
// part: a floor that is taken in the same run on a quiet server does not suffer from it.
package run
