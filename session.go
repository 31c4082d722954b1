package fairlock

import (
	"cmp"
	"errors"
	"os"

	"github.com/fairlock/fairlock/internal/chance"
	"github.com/fairlock/fairlock/reaper"
)

// errNotTrusted: the lease is not renewed at this moment. It may be again, or end; either way it is not permanent.
var errNotTrusted = errors.New("fairlock: session not renewed in time")

// session returns the lease, and begins one if there is none. It is called by the manager's own goroutines only, since it can
// take the time of a database call; concurrent calls share it. Numbers are never asked for under a lease that is
// not trusted: they would have to be given back.
func (m *Manager) session() (*reaper.Lease, error) {
	m.mu.Lock()
	for m.starting != nil {
		starting := m.starting
		m.mu.Unlock()
		<-starting
		m.mu.Lock()
		if m.lease == nil {
			m.mu.Unlock()
			return nil, errNotTrusted
		}
	}
	if m.lease != nil && m.lease.State() == reaper.Ended {
		m.lease = nil // it ended before it was stored here, and leaseMoved did not find it
	}
	if m.lease != nil {
		lease := m.lease
		m.mu.Unlock()
		if !lease.Trusted(lease.Term()) {
			return nil, cmp.Or(lease.Refused(), errNotTrusted)
		}
		return lease, nil
	}
	m.starting = make(chan struct{})
	m.mu.Unlock()

	ctx, cancel := m.opContext()
	defer cancel()
	host, _ := os.Hostname()
	lease, err := reaper.Begin(ctx, reaper.LeaseConfig{
		TTL: m.cfg.lease(), Margin: m.cfg.rest(), Delay: m.cfg.LockDelay, OpTimeout: m.cfg.OpTimeout, Forced: m.forced,
		Clock: m.clock, Store: m.sessions, Log: m.log(), Changed: m.leaseMoved, Chance: m.chance, Renewed: m.observing.renewed(), Resumed: m.renewedLate,
	}, reaper.Session{ID: chance.ID(m.chance), Host: host, PID: os.Getpid(), Label: m.cfg.Label})

	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.starting)
	m.starting = nil
	if err != nil {
		return nil, err
	}
	m.lease = lease
	if !m.begun {
		m.begun = true
		m.spawn(func() { m.reaper.Run(m.bgBase) })
		m.spawn(func() { m.tickets.run(m.bgBase) })
		m.spawn(func() { m.audit(m.bgBase) })
	}
	return lease, nil
}
