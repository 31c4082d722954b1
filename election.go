package fairlock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fairlock/fairlock/queue"
)

// Election chooses one leader among processes: whoever holds the lock of its name leads, and those who stand for it are in line and follow
// in the order in which they came. It is safe for concurrent use, and costs nothing to make.
type Election struct {
	m    *Manager
	name string
}

// ErrNoLeader: at present nobody leads, or who does is not in the database yet.
var ErrNoLeader = errors.New("fairlock: no leader")

// Election returns the election called name. It makes no database call.
func (m *Manager) Election(name string) (*Election, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	return &Election{m, name}, nil
}

// Name is the election's name.
func (e *Election) Name() string { return e.name }

// Campaign stands for leader and returns when this process leads; see [Manager.Lock], whose errors it has. value is shown to observers: an
// address, say. It is at most 255 bytes of valid UTF-8, and takes the place of [Label].
func (e *Election) Campaign(ctx context.Context, value string, opts ...Option) (*Leadership, error) {
	l, err := e.m.Lock(ctx, e.name, append(opts[:len(opts):len(opts)], Label(value))...)
	if err != nil {
		return nil, err
	}
	return &Leadership{l}, nil
}

// Leadership is an election that was won. It ends with Resign, or when it is lost; either is final.
type Leadership struct{ lock *Lock }

// Token is larger than that of every earlier leader; see [Lock.Token].
func (l *Leadership) Token() int64 { return l.lock.Token() }

// Context ends with the leadership; see [Lock.Context].
func (l *Leadership) Context() context.Context { return l.lock.Context() }

// Done is closed when the leadership has ended. Err is the proof; see [Lock.Context].
func (l *Leadership) Done() <-chan struct{} { return l.lock.Context().Done() }

// Err is nil while this process leads; see [Lock.Err].
func (l *Leadership) Err() error { return l.lock.Err() }

// Left is how long it surely leads; see [Lock.Left].
func (l *Leadership) Left() time.Duration { return l.lock.Left() }

// Resign hands the leadership on to the next in line; see [Lock.Unlock].
func (l *Leadership) Resign(ctx context.Context) error { return l.lock.Unlock(ctx) }

// Leader is who leads, as the database says.
type Leader struct {
	Value   string `json:"value"` // as given to Campaign
	Token   int64  `json:"token"`
	Session string `json:"session"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
}

// Leader returns who leads. A leader is seen Config.TicketDelay after it began to wait, where leaders change fast three times that; before, and
// when nobody leads, the error matches [ErrNoLeader]. One that is cut off leads here until its lease is over.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	info, err := e.m.Inspect(ctx, e.name)
	switch {
	case errors.Is(err, ErrNotFound):
		return Leader{}, fmt.Errorf("%w of %q", ErrNoLeader, e.name)
	case err != nil:
		return Leader{}, err
	case info.Kind != string(queue.KindMutex):
		return Leader{}, &queue.MismatchError{Name: e.name, Want: queue.Mutex, Have: queue.Shape{Kind: queue.Kind(info.Kind), Permits: info.Permits}}
	case len(info.Holders) == 0 || info.Holders[0].Owner == nil:
		return Leader{}, fmt.Errorf("%w of %q", ErrNoLeader, e.name)
	}
	h := info.Holders[0]
	return Leader{Value: h.Owner.Label, Token: h.Token, Session: h.Owner.Session, Host: h.Owner.Host, PID: h.Owner.PID}, nil
}

// observeEvery is the time between two looks of an observer.
const observeEvery = time.Second

// Observe yields who leads, at first and whenever that has changed, until ctx ends, the manager is closed or the loop is left. While nobody
// leads it yields nothing. It reads the database once a second, so it can miss one who leads for less. A read that fails is
// yielded as an error, and repeated.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		every := time.NewTicker(observeEvery)
		defer every.Stop()
		for last := int64(0); ; {
			l, err := e.Leader(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, ErrNoLeader):
			case err != nil:
				if !yield(Leader{}, err) {
					return
				}
			case l.Token != last:
				last = l.Token
				if !yield(l, nil) {
					return
				}
			}
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			case <-e.m.bgBase.Done():
				return
			}
		}
	}
}
