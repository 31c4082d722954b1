// Package lockbench measures what a lock costs on a deployment that somebody runs: the floor, a pair of Lock and Unlock on a free lock, and
// hand-offs between processes that wait in line. "fairlock bench" is its face; the module in bench/ is what compares versions and
// other locks, on servers of its own.
//
// # Course
//
//	the database must be empty; a mark in it keeps a second run out
//	the workers start, and wait: connections that idle are part of what is measured
//	floor       majority writes on one document, one after the other, by a client with nobody else about
//	pair        Lock and Unlock of a lock that nobody wants
//	hand-offs   all callers of all workers take one lock again and again, for a time; the beginning is not counted
//	floor       again: a server's load changes in a minute
//	the collections are dropped, and with the last one the database
//
// # A hand-off
//
// Is the time from the start of Unlock to the return of the next one's Lock, whose call had been made before the one that unlocks was
// granted. (A later call may have reached the server only just in time; its wait would be that of its own arrival.) Stamps are of one
// machine's clock, so all workers are on one machine.
//
// # Ends
//
// A worker ends when its standard input does: nothing outlives the run, even when it is killed. Then, and only then, the collections
// are left, and the next run says so.
package lockbench
