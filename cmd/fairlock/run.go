//go:build linux || darwin || freebsd

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock"
)

const runLong = `run takes the lock NAME, runs the command under it, and gives the lock back when the
command has ended. Whoever asked first gets the lock first, here or on other machines.
No shell is involved; the command has fairlock's standard input, output and error.
fairlock itself writes to standard error only, and only what went wrong unless -v.

The command gets in its environment
  FAIRLOCK_NAME   the lock
  FAIRLOCK_TOKEN  the fencing token: larger than that of every earlier holder. Give it to what the lock
                  protects, to be refused there when it is smaller than one seen before
  FAIRLOCK_OWNER  the session's id
  FAIRLOCK_TTL    the lease, such as 30s

When the lock is lost (MongoDB was out of reach for the lease's length, the session was
ended by hand, or --max-hold has passed) the command's process group gets SIGTERM, and
SIGKILL --kill-after later. Both fall into the lease, so the command is gone before
anybody else can get the lock, unless somebody has ended the session by hand: use the
token where that matters. For that --ttl must be at least twice --kill-after and two
seconds (below 10s: two and a half times --kill-after). --on-lost=kill sends SIGKILL at
once; --on-lost=signal:NAME sends NAME in place of SIGTERM. --on-lost=ignore gives
mutual exclusion up: the command goes on while others may hold the lock, and only a
fencing token can protect what both use; its own exit code is then passed on. On Linux,
SIGKILL also finds what the command has started and what has then left its process
group.

When somebody asks for the lock back ("request-release") nothing happens, unless --on-request
says so: with term or signal:NAME the command's process group gets that signal, once, within
about a second. The command then ends in its own time, such as after the item it is at, and
holds the lock until it has; its own exit code is passed on. A worker that is asked while it
waits is not meant.

Signals: while fairlock waits, HUP, INT, QUIT, TERM, USR1 and USR2 make it leave the
queue; while the command runs they are passed to the command's process group, and a
second INT becomes KILL. At a terminal the command is in the foreground, so that Ctrl-C
reaches it alone; Ctrl-Z stops both, which costs the lock if it takes longer than the
lease. What the command leaves behind in the background when it ends goes on without the
lock. When fairlock is killed, the group is killed too; when it is stopped (SIGSTOP) or
hangs, its guard, a second small fairlock, kills the command as the lease ends.

NAME is a mutex: one command at a time. With --shared and --exclusive it is a read/write
lock: commands with --shared run beside each other, one with --exclusive runs alone, and
whoever came first goes first, so that readers cannot starve a writer. With --permits N it
is a semaphore: commands run beside each other as long as their --units add up to N, and a
big one is never passed by small ones that came later. A name is of one kind for all.

--wait counts from the connection to MongoDB, which has 15 s of its own.

`

func newRunCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] NAME [--] command [args...]",
		Short: "Run a command under a lock",
		Long:  runLong + exitTable,
		Example: "  fairlock run nightly-backup -- ./backup.sh --full\n" +
			"  fairlock run --no-wait --exit-code-busy 0 cron-job -- ./job      # skip this turn if the last one still runs\n" +
			"  fairlock run --wait 5m --ttl 1m deploy -- make deploy\n" +
			"  fairlock run --on-request signal:USR1 import -- ./worker           # stops after the row it is at when asked\n" +
			"  fairlock run --shared catalog -- ./export                         # beside other readers, not beside --exclusive\n" +
			"  fairlock run --permits 4 --units 2 builders -- make -j2\n" +
			"  fairlock run migrate -- sh -c 'psql -v token=$FAIRLOCK_TOKEN -f migrate.sql'",
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeNameOnly,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args); err != nil {
				return err
			}
			r := &runner{runFlags: &f, cmd: cmd, log: sharedOf(cmd).logger()}
			return r.run(cmd.Context())
		},
	}
	// What follows NAME belongs to the command.
	cmd.Flags().SetInterspersed(false)
	f.define(cmd)
	return cmd
}

// forwarded is the signals that make fairlock leave the queue, and are passed on while the command runs.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
}

// runner is one fairlock run.
type runner struct {
	*runFlags
	cmd     *cobra.Command
	log     *slog.Logger
	signals chan os.Signal
	path    string // of the command
	m       *opened
}

func (r *runner) warn(format string, args ...any) {
	say(r.cmd.ErrOrStderr(), fmt.Sprintf(format, args...))
}

// run is the whole of it: queue, hold, give back. Signals go to one channel from beginning to end, so that none falls between
// two states.
func (r *runner) run(ctx context.Context) (err error) {
	signals, stop := notify(forwarded...)
	defer stop()
	r.signals = signals
	// A closed standard error must not kill fairlock, and by that the command, in the middle of a warning. A handler, unlike
	// SIG_IGN, is not inherited by the command.
	_, stopPipe := notify(syscall.SIGPIPE)
	defer stopPipe()

	// Before the queue, so that a typo does not wait for hours.
	if r.path, err = lookPath(r.argv[0]); err != nil {
		return err
	}
	lock, err := r.acquire(ctx)
	if err != nil {
		return errors.Join(err, r.giveBack(ctx, nil))
	}
	status, err := r.hold(lock)
	if lost := r.giveBack(ctx, lock); lost != nil && err == nil && !r.action.ignore {
		err = exitf(exitLost, "%w; the command had ended by itself, but may have run beside another holder", lost)
	}
	if err != nil {
		return err
	}
	return exitCode(status)
}

// acquire connects and queues. A signal ends it; what comes of the call after all is given back.
func (r *runner) acquire(ctx context.Context) (*fairlock.Lock, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		lock *fairlock.Lock
		err  error
	}
	results := make(chan result, 1)
	go func() {
		lock, err := r.queue(ctx)
		results <- result{lock, err}
	}()
	var first syscall.Signal
	for {
		select {
		case sig := <-r.signals:
			if first == 0 {
				first = sig.(syscall.Signal)
				r.log.Info("leaving the queue", "lock", r.name, "signal", first.String())
				cancel()
			}
		case res := <-results:
			if first == 0 {
				return res.lock, res.err
			}
			if res.lock != nil {
				_ = r.giveBack(ctx, res.lock)
			}
			return nil, signalled(first)
		}
	}
}

// queue sets r.m as soon as it is open.
func (r *runner) queue(ctx context.Context) (*fairlock.Lock, error) {
	m, err := sharedOf(r.cmd).open(ctx, fairlock.Config{TTL: r.ttl, Margin: r.margin(), Label: r.label})
	if err != nil {
		return nil, err
	}
	r.m = m
	var opts []fairlock.Option
	if r.wait > 0 {
		opts = append(opts, fairlock.MaxWait(r.wait))
	}
	if r.maxHold > 0 {
		opts = append(opts, fairlock.MaxHold(r.maxHold))
	}
	began := time.Now()
	take, err := r.taker(m.Manager)
	if err != nil {
		return nil, err
	}
	r.log.Info("asking for the lock", "lock", r.name, "database", m.db.Name())
	lock, err := take(ctx, opts...)
	if errors.Is(err, fairlock.ErrBusy) || errors.Is(err, fairlock.ErrWaitLimit) {
		return nil, &exitError{code: r.busyCode, msg: r.whyBusy(err), err: err}
	}
	if err != nil {
		return nil, err
	}
	r.log.Info("granted", "lock", r.name, "token", lock.Token(), "waited", time.Since(began).Round(time.Millisecond))
	return lock, nil
}

// taker is the call that takes the lock, by its kind and by whether it waits.
func (r *runner) taker(m *fairlock.Manager) (func(context.Context, ...fairlock.Option) (*fairlock.Lock, error), error) {
	type call = func(context.Context, ...fairlock.Option) (*fairlock.Lock, error)
	pick := func(wait, try call) (call, error) {
		if r.noWait {
			return try, nil
		}
		return wait, nil
	}
	switch {
	case r.shared, r.exclusive:
		rw, err := m.RWLock(r.name)
		if err != nil {
			return nil, err
		}
		if r.shared {
			return pick(rw.RLock, rw.TryRLock)
		}
		return pick(rw.Lock, rw.TryLock)
	case r.permits > 0:
		s, err := m.Semaphore(r.name, r.permits)
		if err != nil {
			return nil, err
		}
		units := func(f func(context.Context, int64, ...fairlock.Option) (*fairlock.Lock, error)) call {
			return func(ctx context.Context, opts ...fairlock.Option) (*fairlock.Lock, error) {
				return f(ctx, r.units, opts...)
			}
		}
		return pick(units(s.Acquire), units(s.TryAcquire))
	}
	named := func(f func(context.Context, string, ...fairlock.Option) (*fairlock.Lock, error)) call {
		return func(ctx context.Context, opts ...fairlock.Option) (*fairlock.Lock, error) {
			return f(ctx, r.name, opts...)
		}
	}
	return pick(named(m.Lock), named(m.TryLock))
}

// whyBusy is the message of an outcome that is no failure. The exit code tells it, and scripts want no more; unless MongoDB was
// out of reach while time passed.
func (r *runner) whyBusy(err error) string {
	if sharedOf(r.cmd).verbose || mongo.IsNetworkError(err) || mongo.IsTimeout(err) {
		return err.Error()
	}
	return ""
}

// giveBack releases the lock, if there is one, and closes the manager, which gives back all else. It returns the loss if
// the database shows that the lock was lost before. Any other failure is a warning: the lease frees the lock, so it is not
// tried for longer than that, and after a loss only briefly: MongoDB is most likely out of reach. A signal ends the waiting.
func (r *runner) giveBack(ctx context.Context, lock *fairlock.Lock) (lost error) {
	if r.m == nil {
		return nil
	}
	limit := min(closeLimit, r.ttl)
	if lock != nil && errors.Is(lock.Err(), fairlock.ErrLost) {
		limit = min(limit, 2*time.Second)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if lock != nil {
			if err := lock.Unlock(ctx); errors.Is(err, fairlock.ErrLost) {
				lost = err
			} else if err != nil {
				r.warn("lock %q could not be given back: %v; others get it within %v", r.name, err, r.ttl)
			}
		}
		if err := r.m.close(ctx); err != nil {
			r.log.Warn("manager not closed in order", "error", err)
		}
	}()
	select {
	case <-done:
	case sig := <-r.signals:
		r.log.Info("not waiting any longer for the lock to be given back", "signal", sig.String())
		cancel()
		<-done
	}
	r.m = nil
	return lost
}

// lookPath finds the command.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil // a PATH with "." in it is the user's wish
	}
	return path, execError(name, err)
}

// execError gives what keeps a command from being executed its exit code.
func execError(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return exitf(exitNotFound, "command %q not found in PATH", name)
	case errors.Is(err, fs.ErrNotExist):
		return exitf(exitNotFound, "command %q not found: %w", name, err)
	}
	return exitf(exitCannotExec, "command %q cannot be executed: %w", name, err)
}

// environ is the command's environment: ours, with what stands about another lock replaced. A fairlock within the
// command finds the same MongoDB.
func (r *runner) environ(inherited []string, token int64, owner string) []string {
	own := []string{
		"FAIRLOCK_NAME=" + r.name,
		fmt.Sprintf("FAIRLOCK_TOKEN=%d", token),
		"FAIRLOCK_OWNER=" + owner,
		"FAIRLOCK_TTL=" + r.ttl.String(),
	}
	env := make([]string, 0, len(inherited)+len(own))
	for _, kv := range inherited {
		key, _, _ := strings.Cut(kv, "=")
		switch key {
		case "FAIRLOCK_NAME", "FAIRLOCK_TOKEN", "FAIRLOCK_OWNER", "FAIRLOCK_TTL":
		default:
			env = append(env, kv)
		}
	}
	return append(env, own...)
}
