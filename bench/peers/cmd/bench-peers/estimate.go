package main

import (
	"time"

	"github.com/fairlock/fairlock/bench/peers"
	"github.com/fairlock/fairlock/bench/run"
)

// What a measurement takes beyond its warm-up and windows, as seen on two cores: once, and for each contender to start and to end.
const (
	overhead = 500 * time.Millisecond
	perGo    = 12 * time.Millisecond
	perJVM   = 500 * time.Millisecond
)

// estimate is about how long a task takes if nothing fails.
func (o options) estimate(t task) time.Duration {
	each := perGo
	if most := peers.MaxContenders(t.Kind); most > 0 {
		if t.n > most {
			return 0 // not run
		}
		each = perJVM
	}
	took := overhead + time.Duration(t.n)*each
	if t.idle {
		return took + 2*settle + time.Second + o.idle/2 + o.idle
	}
	return took + run.WarmFor(t.n) + peers.ExtraWarm(t.Kind) + run.WindowFor(t.n, o.window)
}
