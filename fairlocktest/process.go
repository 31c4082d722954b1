package fairlocktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/internal/memstore"
)

// ErrCut is what database calls of a process fail with after [Process.Cut]. [fairlock.Manager.Inspect] and List return it; calls that wait go on
// waiting.
var ErrCut = errors.New("fairlocktest: cut off from the database")

// errKilled answers what is left of a killed process.
var errKilled = errors.New("fairlocktest: the process was killed")

// Process is one process: a manager, and what can happen to it. It is safe for concurrent use. Methods that disturb it come back when what they say
// is so. After Kill they fail the test, since nothing can happen to a process that is not there; only Kill may be repeated.
type Process struct {
	*fairlock.Manager

	tb     testing.TB
	clock  *memstore.Clock
	client *memstore.Client
	gone   chan struct{} // closed by Kill

	mu    sync.Mutex // guards all below
	dead  bool
	fails error         // what calls fail with; nil: they do not
	awake chan struct{} // while the process is paused: closed when it goes on
}

// Pause makes the process stand still, as SIGSTOP or the suspension of its machine does, until Resume: its clock stands, its calls are not sent and get
// no reply. To others it is a process that does not renew its lease: when that is over, they get its locks.
//
// The process notices nothing while it is paused. [fairlock.Lock.Err] says what it believes, that it holds the lock, and that is what a late write of a
// paused holder is tested with. After Resume its clock is that of everybody, and Err says the truth at once.
//
// Timers of the process do not stand: a wait with [fairlock.MaxWait] ends during the pause, and what the test's own goroutines do goes
// on. Calls that need the database come back after Resume.
func (p *Process) Pause() {
	p.tb.Helper()
	if !p.lives("Pause") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awake == nil {
		p.awake = make(chan struct{})
		p.clock.Stop()
	}
}

// Resume ends Pause. Of a process that is not paused it changes nothing.
func (p *Process) Resume() {
	p.tb.Helper()
	if p.lives("Resume") {
		p.resume()
	}
}

func (p *Process) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awake != nil {
		p.clock.Go() // before anybody can act
		close(p.awake)
		p.awake = nil
	}
}

// Suspend makes d pass for the process and for nobody else, at once: the process finds itself d later. With d of a Config.TTL or
// more it has lost what it held, and that is what Suspend is for outside of a bubble, where Pause would need the time to pass.
//
// [fairlock.Lock.Err] says so at once. The lock's context ends when a timer of the process notices, after a third of Config.TTL at most.
// The others, for whom no time has passed, get the lock when the process gives it back: when its code calls Unlock, or Config.Margin and Config.LockDelay
// after the process has noticed. d must be positive.
func (p *Process) Suspend(d time.Duration) {
	p.tb.Helper()
	if !p.lives("Suspend") {
		return
	}
	if d <= 0 {
		p.tb.Errorf("fairlocktest: Suspend: d is %v: must be positive", d)
		return
	}
	p.clock.Sleep(d)
}

// Cut cuts the process off from the database until Heal: all its calls fail at once with [ErrCut], those that are under way with an
// unknown outcome, and its change stream ends. When it lasts, the lease runs out: the process's locks are lost by its own clock Config.Margin before others
// can have them. Who waits goes on waiting, and keeps its place if the process is healed in time.
func (p *Process) Cut() {
	p.tb.Helper()
	p.Fail(ErrCut)
}

// Fail makes all database calls of the process fail with err until Heal, as [Process.Cut] does with [ErrCut]. Fairlock repeats what failed, as long
// as it is not sure that repeating cannot help: an err that matches [fairlock.ErrMalformed] or [fairlock.ErrTooManyWaiters] is returned to the caller of Lock
// at once, [context.DeadlineExceeded] and any other err that it does not know stand for a server that does not answer. err must not be nil.
func (p *Process) Fail(err error) {
	p.tb.Helper()
	if !p.lives("Fail") {
		return
	}
	if err == nil {
		p.tb.Errorf("fairlocktest: Fail: err must not be nil; Heal ends it")
		return
	}
	p.mu.Lock()
	p.fails = err
	p.mu.Unlock()
	p.client.KillStreams(err)
}

// Heal ends Cut and Fail. Of a process whose calls do not fail it changes nothing.
func (p *Process) Heal() {
	p.tb.Helper()
	if p.lives("Heal") {
		p.heal()
	}
}

func (p *Process) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = nil
}

// Kill ends the process at once, as kill -9 or a power failure does: no call of it reaches the database any more. Its locks and places in line
// stay until its lease is over, which others find out.
//
// Goroutines of the test that have calls under way in the process, or make new ones, cannot be killed with it. They get
// [fairlock.ErrClosed], and locks that they hold are lost with [fairlock.LostClosed]; a test leaves out what they do from then on.
func (p *Process) Kill() {
	p.mu.Lock()
	if !p.dead {
		p.dead = true
		close(p.gone)
	}
	p.mu.Unlock()
	p.client.KillStreams(errKilled)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	// It ends the goroutines, and waits for them. It cannot give anything back, and says so.
	_ = p.Close(over)
}

func (p *Process) killed() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// lives fails the test if the process was killed.
func (p *Process) lives(what string) bool {
	p.tb.Helper()
	if p.killed() {
		p.tb.Errorf("fairlocktest: %s of a process that was killed", what)
		return false
	}
	return true
}

// course is what happens to each call of the process, before it takes effect and after.
func (p *Process) course(_ context.Context, at memstore.Point, op memstore.Op, _ string) error {
	for {
		p.mu.Lock()
		dead, fails, awake := p.dead, p.fails, p.awake
		p.mu.Unlock()
		switch {
		case at == memstore.After && (op == memstore.OpBegin || op == memstore.OpOpen):
			// What was opened is the caller's to close, and a reply that is lost here would keep it open for ever. The next call on it fails.
			return nil
		case dead:
			return errKilled
		case awake != nil:
			// Not until the caller's context ends: that is a timer of the process, which stands still.
			select {
			case <-awake:
			case <-p.gone:
			}
			continue
		case fails != nil:
			return fmt.Errorf("%s: %w", op, fails)
		}
		return nil
	}
}
