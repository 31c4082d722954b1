// Package mutants breaks fairlock by hand, one fault at a time, and demands that a test notices.
//
// A mutant is a small edit of one file that makes a rule of the protocol false, together with the one test that must fail on it,
// its catcher. The edit is laid over the source by the -overlay flag of the go command, so the tree is never written to.
// A mutant counts as caught only when
//
//   - its old text occurs exactly once in its file, so that it is the fault that it says it is ([Mutant.Apply]);
//   - the mutated package and the catcher's test binary build: a mutant that the compiler refuses proves nothing;
//   - the catcher passes without the mutant in the same run;
//   - the catcher fails with it by a failed test, or in the way that the list names (Catch.Says): a panic, a leak.
//
// A mutant that survives is a finding about the tests, and the test is written; one that changes nothing that could be
// observed is no mutant, and is taken out of the list.
//
// The tests of this package check that all of the list applies to the tree as it is, that each catcher exists, and that the
// table in docs/testing.md is that of the list. They run no mutant; cmd/mutants does (make mutants).
//
// # Goroutines
//
// One goroutine builds, and up to two run what is built; Run returns when all have ended, and with them every process that they
// started. A test binary ends by its own -test.timeout at the latest.
package mutants
