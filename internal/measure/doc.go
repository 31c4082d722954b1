// Package measure is figures: samples of times and their quantiles, stamps that processes of one machine can compare, and the
// floor, which is what no hand-off can be faster than.
package measure
