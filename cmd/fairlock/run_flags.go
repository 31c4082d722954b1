//go:build linux || darwin || freebsd

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

// runFlags is what the command line of run says, checked.
type runFlags struct {
	wait      time.Duration // 0: no limit
	noWait    bool
	ttl       time.Duration
	onLost    string
	killAfter time.Duration
	busyCode  int
	label     string
	maxHold   time.Duration // 0: no limit
	shared    bool
	exclusive bool
	permits   int64 // 0: no semaphore
	units     int64
	onRequest string

	action  action
	request action
	name    string
	argv    []string
}

// action is --on-lost or --on-request, read.
type action struct {
	ignore bool
	sig    syscall.Signal // what the command gets; of --on-lost it is the first, and after SIGKILL there is nothing else
}

func (f *runFlags) define(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.DurationVarP(&f.wait, "wait", "w", 0, "give up when the lock was not granted after this time (default: wait for ever)")
	fl.BoolVarP(&f.noWait, "no-wait", "n", false, "give up at once when the lock is held or others wait for it")
	fl.DurationVar(&f.ttl, "ttl", 30*time.Second, "lease, 1s to 1h: how long others wait when this process or machine dies")
	fl.StringVar(&f.onLost, "on-lost", "term", "when the lock is lost: term, kill, ignore or signal:NAME")
	fl.DurationVar(&f.killAfter, "kill-after", 5*time.Second,
		"from the first signal of --on-lost to SIGKILL (default 5s, or 2/5 of --ttl if that is less)")
	fl.Lookup("kill-after").DefValue = "0s" // which is not shown: the default is said above
	fl.IntVarP(&f.busyCode, "exit-code-busy", "E", exitBusy, "exit code when the lock was not obtained, 0 to 255")
	fl.StringVar(&f.label, "label", "", "shown to others in status (default: the command's name)")
	fl.StringVar(&f.onRequest, "on-request", "ignore", "when somebody asks for the lock back (request-release): ignore, term, kill or signal:NAME")
	fl.BoolVar(&f.shared, "shared", false, "take NAME as a read/write lock, to read: beside others who do")
	fl.BoolVar(&f.exclusive, "exclusive", false, "take NAME as a read/write lock, to write: alone")
	fl.Int64Var(&f.permits, "permits", 0, "take NAME as a semaphore of this many permits, 1 to 10000; all who use it name the same number")
	fl.Int64Var(&f.units, "units", 1, "how many of the permits to take, all at once")
	fl.DurationVar(&f.maxHold, "max-hold", 0, "end the command as if the lock were lost when it has run for this time")
}

// check reads the arguments and refuses what breaks a rule. args is everything from NAME on.
func (f *runFlags) check(cmd *cobra.Command, args []string) error {
	bad := func(format string, args ...any) error { return usagef(cmd, format, args...) }
	if len(args) == 0 {
		return bad("NAME and a command are missing: fairlock run [flags] NAME -- command [args]")
	}
	f.name, f.argv = args[0], args[1:]
	if err := fairlock.ValidateName(f.name); err != nil {
		return bad("%w", err)
	}
	switch {
	case len(f.argv) > 0 && f.argv[0] == "--":
		f.argv = f.argv[1:]
	case len(f.argv) > 0 && strings.HasPrefix(f.argv[0], "-"):
		return bad("flag %s stands after NAME %q: flags of fairlock go before NAME, a command that begins with - after --", f.argv[0], f.name)
	}
	if len(f.argv) == 0 || f.argv[0] == "" {
		return bad("the command is missing: fairlock run [flags] %s -- command [args]", f.name)
	}
	given := cmd.Flags().Changed
	switch {
	case f.noWait && given("wait"):
		return bad("--no-wait and --wait %v exclude each other", f.wait)
	case given("wait") && f.wait <= 0:
		return bad("--wait is %v: must be positive; --no-wait does not wait", f.wait)
	case f.ttl < time.Second || f.ttl > time.Hour:
		return bad("--ttl is %v: must be from 1s to 1h", f.ttl)
	case given("max-hold") && f.maxHold <= 0:
		return bad("--max-hold is %v: must be positive", f.maxHold)
	case f.shared && f.exclusive:
		return bad("--shared and --exclusive exclude each other")
	case given("permits") && (f.shared || f.exclusive):
		return bad("--permits %d and --shared or --exclusive exclude each other: a lock is of one kind", f.permits)
	case given("permits") && (f.permits < 1 || f.permits > queue.MostPermits):
		return bad("--permits is %d: must be from 1 to %d", f.permits, int64(queue.MostPermits))
	case given("units") && !given("permits"):
		return bad("--units is %d without --permits: only a semaphore has units", f.units)
	case f.units < 1 || f.units > queue.MostPermits:
		return bad("--units is %d: must be from 1 to %d", f.units, int64(queue.MostPermits))
	case f.busyCode < 0 || f.busyCode > 255:
		return bad("--exit-code-busy is %d: must be from 0 to 255", f.busyCode)
	case len(f.label) > 255 || !utf8.ValidString(f.label):
		return bad("--label has %d bytes: must be at most 255 of valid UTF-8", len(f.label))
	case f.killAfter < 0:
		return bad("--kill-after is %v: must not be negative", f.killAfter)
	}
	if f.label == "" {
		f.label = defaultLabel(f.argv[0])
	}
	var err error
	if f.action, err = parseAction("on-lost", f.onLost); err != nil {
		return bad("%w", err)
	}
	if f.request, err = parseAction("on-request", f.onRequest); err != nil {
		return bad("%w", err)
	}
	if !given("kill-after") {
		f.killAfter = min(f.killAfter, f.ttl/5*2)
	}
	if f.margin() > f.ttl/2 {
		return bad("--kill-after %v does not fit into --ttl %v: the command must be gone before others can get the lock; "+
			"use --ttl %v or more, or --kill-after %v or less", f.killAfter, f.ttl, ttlFor(f.killAfter), f.ttl/2-slack(f.ttl))
	}
	return nil
}

// slack is the part of the margin that is not the command's: to notice the loss, and from SIGKILL to the last process's end.
func slack(ttl time.Duration) time.Duration { return min(time.Second, ttl/10) }

// margin is Config.Margin. The library gives a holder up at that time before anybody else can be admitted, so a command
// that is sent SIGKILL when its grace has passed is gone by then.
func (f *runFlags) margin() time.Duration { return f.grace() + slack(f.ttl) }

// grace is the command's time between the loss and SIGKILL.
func (f *runFlags) grace() time.Duration {
	if f.action.ignore || f.action.sig == syscall.SIGKILL {
		return 0
	}
	return f.killAfter
}

// ttlFor is the least lease into whose half killAfter and the slack fit, in full milliseconds: below 10 s the slack is a tenth of
// it, from there on a second.
func ttlFor(killAfter time.Duration) time.Duration {
	ttl := 2*killAfter + 2*time.Second
	if killAfter < 4*time.Second {
		ttl = killAfter / 2 * 5
	}
	return max(time.Second, (ttl + time.Millisecond - 1).Truncate(time.Millisecond))
}

func parseAction(flag, s string) (action, error) {
	switch s {
	case "term":
		return action{sig: syscall.SIGTERM}, nil
	case "kill":
		return action{sig: syscall.SIGKILL}, nil
	case "ignore":
		return action{ignore: true}, nil
	}
	name, ok := strings.CutPrefix(s, "signal:")
	if !ok {
		return action{}, fmt.Errorf("--%s is %q: must be term, kill, ignore or signal:NAME", flag, s)
	}
	sig, err := parseSignal(name)
	if err != nil {
		return action{}, fmt.Errorf("--%s is %q: %w", flag, s, err)
	}
	return action{sig: sig}, nil
}

// parseSignal knows signals as kill(1) does: TERM, SIGTERM, term or 15.
func parseSignal(s string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(s); err == nil && n > 0 && unix.SignalName(syscall.Signal(n)) != "" {
		return syscall.Signal(n), nil
	}
	name := strings.ToUpper(s)
	if sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("%q is no signal of this system", s)
}

// defaultLabel is the command without its arguments, which may be secrets.
func defaultLabel(command string) string {
	label := strings.ToValidUTF8(filepath.Base(command), "?")
	return label[:min(len(label), math.MaxUint8)]
}
