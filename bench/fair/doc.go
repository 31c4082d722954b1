// Package fair measures what only fairlock is measured for: a pair without contention, a hand-off on a quiet machine, and many callers in
// one process.
//
// # Method
//
// The lock is taken in processes of its own, workers, which the harness tells each step. The floor is taken by the harness, by a client of its
// own, in turn with each measurement and after the same pause, so that both meet the same machine: a server that has just been idle is slower,
// and one that shares two cores with its clients has good and bad seconds.
//
//	Pair      Lock and Unlock in one worker; one floor; and again
//	HandOff   one worker holds, the other is in line (the reply to its enqueue has come); pause; Unlock; grant in the other; pause; one
//	          floor; and again with the roles exchanged. From the stamp before Unlock to the stamp after Lock.
//	Combine   64 goroutines of one worker take and leave one lock, for as long as told; floors before and after
//	Crowd     10,000 goroutines of one worker wait for a lock that another process holds
//
// # Memory of a waiter
//
// In one process, each time after five runs of the garbage collector (one run only halves a stack): live heap and stacks with 10,000
// goroutines that wait in a select on a channel and on a context's end, less those without them; and the same with 10,000 that wait in
// Manager.Lock. The difference of the two differences is what a waiter needs beyond its goroutine. Before all that, 10,000 goroutines
// have come and gone, so that neither side pays for the runtime's descriptors of goroutines, which are never freed; and the runtime's
// guessing of first stack sizes is off. Live heap is
// the bytes of objects; what spans have free between them is left out of the headline and given beside it.
package fair
