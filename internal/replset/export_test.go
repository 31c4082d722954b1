//go:build linux || darwin

package replset

import "context"

// StartOnPorts is Start with ports from pick.
func StartOnPorts(ctx context.Context, o Options, pick func() (int, error)) (*Set, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	bin, err := Find(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	return start(ctx, o, bin, pick)
}

// GuardPID is the process id of the watcher.
func (s *Set) GuardPID() int { return s.guard.PID() }

var (
	PickPort = ports.pick
	Sweep    = sweep
)
