// Package integration tests fairlock on real servers and with real processes. It has no code of its own.
//
// TestMain starts one replica set of three members that the tests share, each in a database of its own; tests that hurt
// servers start their own. FAIRLOCK_URI uses an existing deployment for the shared one. Nothing is ever skipped: without a
// mongod the tests fail and say which ways to get one were tried.
//
// Processes that are to be killed or stopped are this test binary again, run as a worker (worker_test.go).
package integration
