// Package bench measures fairlock, and other ways to lock, on real servers of their own. It is a module of its own, so that nobody who
// uses fairlock gets the clients of five other systems into go.sum.
//
//	make bench                      fairlock alone, at most five minutes; results/ gets latest.json, fairlock.json, fairlock.md and plots
//	go run ./cmd/bench -h           its flags: -only, -sizes, -window, -long, -out
//	make bench-peers                fairlock beside all others, about 25 minutes; results/ gets peers.json, peers.md and peers/. If it
//	                                was interrupted: make bench-peers BENCHFLAGS=-resume
//
// # Parts
//
//	contend   the contract between harness and contenders, the loop of a contender, fairlock as a contender
//	run       starts contenders as processes and measures them and their server; says what is counted when
//	stats     figures from records, with the definitions of all words: hand-off, wait, inversion, Jain's index
//	fair      what only fairlock is measured for: a pair, a quiet hand-off, many goroutines
//	recipes   the four algorithms that fairlock replaces
//	report    JSON, Markdown, SVG
//	peers     other libraries and their servers
//
// # Ratios
//
// A figure in milliseconds says more of the machine than of the lock. So everything is divided by the floor, the time of one majority
// findAndModify by a client of its own, which is taken in the same run: in turn with the measurement where that is of single steps on a
// quiet machine, and else before and after, with the same processes connected. No lock on a replica set can hand over in less than
// one majority write, nor take and leave in less than two.
//
// # Noise
//
// Servers, contenders and harness share the cores of one machine. With two cores the following has been seen:
//
//   - p50 of the floor moves by a third between runs, ratios of p50 by a tenth. p99 is the third or fourth worst of some hundred
//     measurements, and moves by a half.
//   - What costs CPU anywhere slows everybody: figures of many processes are as much about what a waiter costs as about the protocol.
//   - The network is loopback: what a design saves in round trips is worth more elsewhere, what it saves in CPU less.
//
// Jain's index of few grants each cannot be 1: with 1.5 grants for each contender the best split has 0.9. It is given beside the best that
// the number of grants allows; a longer -window takes the difference away.
//
// The seed of what is random (ids of sessions and owners, the pauses of other libraries) is not fixed: no figure depends on a
// sequence of random numbers, and contenders do not choose by one.
//
// # Ends
//
// Contenders and workers end when their standard input does, and mongods when the process that started them is gone (see
// internal/replset): nothing outlives the harness, even when it is killed with SIGKILL.
package bench
