// Package gateway measures fairlock's HTTP gateway with many clients connected who wait for one lock.
//
// # Method
//
// Gateways run in processes of their own, on a replica set of three; the clients are in the harness, each with a connection of its own, on which it
// has an event stream. All are in line before anything is measured. Then, again and again: pause; stamp; DELETE by the holder; stamp when the event "held" has
// reached the next in line; the one who has left asks again and stands at the end; pause; one floor (package run), by a client of the harness. So both
// meet the same machine, and the number of those who wait stays the same.
//
//	inside    one gateway: the lock passes from client to client without a write
//	between   two gateways, whose clients stand in line in turn: each hand-off goes through the database
//
// Beside it, while nothing moves: the processor time of the gateways in some seconds, and the memory of each (resident, from /proc) before and with the
// clients, which includes what their connections need.
package gateway
