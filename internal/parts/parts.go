// Package parts are the sides of a manager that can be exchanged: the database and the clock. The simulator and fairlocktest put
// managers together from others than MongoDB's.
package parts

import (
	"math/rand/v2"

	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/queue"
	"github.com/fairlock/fairlock/reaper"
	"github.com/fairlock/fairlock/waiter"
)

// Parts are what a manager is made of. All but Chance are required.
type Parts struct {
	Clock    clock.Clock
	Queue    queue.Store
	Sessions reaper.Sessions
	Source   waiter.Source
	Chance   rand.Source // see package chance
}
