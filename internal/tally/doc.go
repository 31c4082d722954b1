// Package tally is what the adapters under metrics/ have in common: which metrics there are, and the sum of the statistics of the managers that one
// set of metrics is about. A program can have several managers, and can close some.
package tally
