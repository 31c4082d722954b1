// Package tally is what the gateway and the adapters under metrics/ have in common: which metrics there are, what of that which an observer is told counts
// as which, and the sum of the statistics of the managers that one set of metrics is about. A program can have several managers, and can close some.
//
// An adapter makes metrics and stores: [New] has it add each [Event], and tells each series what happens. What [Counts] lists it reads from [Metrics.Sum].
package tally
