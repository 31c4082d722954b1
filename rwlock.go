package fairlock

import (
	"context"

	"github.com/fairlock/fairlock/queue"
)

// RWLock lets many read or one write, in the order in which they came: a writer waits for those who came before it and nobody who
// comes later passes it, so that readers cannot starve it, and readers who stand next to each other in line enter together. Up
// to 1024 can read at a time. It is safe for concurrent use, and costs nothing to make.
//
// A read lock cannot be made a write lock: two who tried would wait for each other for ever. Give it back and take the write lock.
type RWLock struct {
	m    *Manager
	name string
}

// RWLock returns the read/write lock called name. It makes no database call.
func (m *Manager) RWLock(name string) (*RWLock, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	return &RWLock{m, name}, nil
}

var (
	reader = demand{queue.RW, 1}
	writer = demand{queue.RW, queue.Readers}
)

// Name is the lock's name.
func (l *RWLock) Name() string { return l.name }

// Lock takes the lock for writing; see [Manager.Lock]. Its token is larger than those of all who read or wrote before.
func (l *RWLock) Lock(ctx context.Context, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, writer, opts, false)
}

// TryLock takes the lock for writing if nobody has it and nobody waits; see [Manager.TryLock].
func (l *RWLock) TryLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, writer, opts, true)
}

// RLock takes the lock for reading; see [Manager.Lock]. Its token is larger than that of every writer before and smaller than
// that of every writer after; those of readers beside each other say nothing of who came first.
func (l *RWLock) RLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, reader, opts, false)
}

// TryRLock takes the lock for reading if nobody writes and nobody waits; see [Manager.TryLock].
func (l *RWLock) TryRLock(ctx context.Context, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, reader, opts, true)
}

func (l *RWLock) acquire(ctx context.Context, d demand, opts []Option, try bool) (*Lock, error) {
	o, err := l.m.options(ctx, l.name, opts)
	if err != nil {
		return nil, err
	}
	o.ask = d
	return l.m.acquire(ctx, l.name, o, try)
}
