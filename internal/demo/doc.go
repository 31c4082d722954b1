// Package demo is `fairlock demo`: batch workers in processes of their own that number invoices under one lock, are killed
// while they do, and leave a ledger from which it is proved that the lock did its work.
//
// # Processes
//
//	parent ── starts mongod (or is given a URI), watches, kills, proves
//	  │ stdin: config, then commands      │ its own change stream: the order of arrivals
//	  │ stdout: events, one JSON a line   │
//	  ├── worker 1: one client, one Manager, G goroutines
//	  ├── ...
//	  └── worker W
//
// A worker is the same binary executed again. It ends when its stdin does, so none outlives the parent, however
// that ends; it ignores Ctrl-C, which a terminal sends to all, and leaves that to the parent.
//
// # What is written
//
// `ledger` has one row per invoice, _id = number. `head` has one document: the number of the last row, running total and hash,
// the token under which it was written, and the row itself. Under the lock a worker reads the head, computes the next row,
// and writes
//
//	head, if {n: as read, token: smaller than mine} ── the commit: after it the row exists, here or in the ledger
//	ledger row, from the head                       ── may be done by anybody, any number of times
//
// L1. The head is the truth and moves by conditional updates only. A holder that was given up for dead and writes late
// has a smaller token than its successor, and so is refused (the fence); should it come between its successor's
// read and write, the successor is refused, reads again and computes again.
//
// L2. A crash between the two writes leaves a head without its row. Every holder looks for that before it does anything else, and
// completes it. The row is a copy of what the head holds, so that a late insert by the one believed dead writes the same.
//
// L3. Line k of the input becomes invoice number k: what comes next is read from the ledger alone, so the line of a killed
// worker is taken by whoever is granted next.
//
// The read, the sum and the write are three steps: it is the lock that makes them one. The conditions turn a failure of the
// lock into a refusal, which is kept as evidence (P10), so that the ledger shows whether the lock alone would have sufficed.
//
// # What is proved
//
// [Check] is a pure function of the input, the rows, the arrivals and the holds:
//
//	P1 no gap, P2 no double, P3 every line with its content, P4 totals and hash chain
//	P5 tokens strictly increase from row to row
//	P6 every token was issued, and granted to the one who wrote the row
//	P7 grants follow arrivals: 0 inversions of row order against the order in which arrivals were committed
//	P8 grants follow arrivals for all grants, also those that wrote nothing, in the order of their time stamps
//	P9 one holder at a time, by a clock that all processes share
//	P10 the lock sufficed: no write had to be refused, unless one of the two had been killed or had lost the lock
//
// Rows are read by majority when all is over. Arrivals come from a change stream of the parent's, which knows nothing of
// the library: each event that moves `issued` is one arrival, and a change stream is in commit order. Holds come from the
// workers. An interval of a hold begins after the grant was seen and ends at a moment when Err was still nil, so
// that two which overlap are two holders.
//
// # Goroutines
//
// Parent: one reader per worker, which ends with the worker's stdout; the observer; one that inspects the queue; while the
// primary is stepped down, one more. Run waits for all of them. All state of a run belongs to the goroutine of Run.
package demo
