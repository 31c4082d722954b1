// Package conformance is what fairlock promises to those who call it, as tests that run over any deployment of it: the public contract and nothing of
// how it is kept. It is run over package fairlocktest, in a bubble and outside, and over a MongoDB replica set; a difference between them is a
// bug of one of them.
//
// # Rules
//
// A test uses the public packages only, and asks the database with [fairlock.Manager.Inspect] and List. It waits for what it wants to see, by a
// channel or by reading until it is there, and never for a time: nothing here passes because a machine was quick, or fails because it was
// slow. What cannot be waited for, that nothing happens, is seen from its consequences: an order, a token, a number that was not issued.
//
// At the end of each test the deployment checks that nothing is left (I8 of package queue).
package conformance
