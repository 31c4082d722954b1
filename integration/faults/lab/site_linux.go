package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/fairlock/fairlock/integration/faults"
	"github.com/fairlock/fairlock/internal/replset"
)

// members is the size of a site's replica set.
const members = 3

// site is a replica set somewhere else than on this machine's loopback, disk and time. It is a [faults.Deployment].
type site struct {
	*replset.Set // nil until it has been started

	net    *Network       // nil, as hosts, for members on loopback
	hosts  []*Host        // of members
	clocks []*ServerClock // of members, or nil
	disks  []*Disk        // of members, or nil

	mu      sync.Mutex // guards clients
	clients map[int]*Host
}

// kind is what a row needs of its site.
type kind struct {
	network, clocks bool
	behind          time.Duration // how far the clocks of all but the first member are behind, from their start
	disk            int64         // bytes of each member's own disk; 0 is the machine's
	opts            replset.Options
}

// deploy starts such a site.
func (k kind) deploy(ctx context.Context, dir string) (faults.Deployment, error) {
	s := &site{clients: map[int]*Host{}}
	err := s.furnish(k, dir)
	if err == nil {
		s.Set, err = replset.Start(ctx, s.options(k.opts))
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *site) furnish(k kind, dir string) (err error) {
	if k.network {
		if s.net, err = NewNetwork(0); err != nil {
			return err
		}
		if _, err := s.net.Join(); err != nil {
			return err
		}
	}
	for i := range members {
		if k.network {
			h, err := s.net.Add()
			if err != nil {
				return err
			}
			s.hosts = append(s.hosts, h)
		}
		if k.clocks {
			c, err := NewServerClock(dir)
			if err != nil {
				return err
			}
			if i > 0 {
				if err := c.Set(-k.behind); err != nil {
					return err
				}
			}
			s.clocks = append(s.clocks, c)
		}
		if k.disk > 0 {
			d, err := NewDisk(k.disk)
			if err != nil {
				return err
			}
			s.disks = append(s.disks, d)
		}
	}
	return nil
}

// options puts each member in its place.
func (s *site) options(o replset.Options) replset.Options {
	if s.hosts != nil {
		o.Host = func(m int) string { return s.hosts[m].IP() }
	}
	if s.disks != nil {
		o.DBPath = func(m int) string { return s.disks[m].Path() }
	}
	o.Launch = func(m int, cmd *exec.Cmd) error {
		if s.clocks != nil {
			s.clocks[m].Apply(cmd)
		}
		if s.hosts != nil {
			return s.hosts[m].Start(cmd)
		}
		return cmd.Start()
	}
	return o
}

// Stop implements [faults.Deployment].
func (s *site) Stop(ctx context.Context) error {
	// A nil Set is stopped.
	errs := []error{s.Set.Stop(ctx)}
	if s.net != nil {
		errs = append(errs, s.net.Close())
	}
	for _, d := range s.disks {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// siteOf is the site of a run.
func siteOf(r *faults.Run) *site { return r.Deployment.(*site) }

// client is the host of a process of the crew, which is made when it is first asked for.
func (s *site) client(proc int) (*Host, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.clients[proc]; h != nil {
		return h, nil
	}
	h, err := s.net.Add()
	if err == nil {
		s.clients[proc] = h
	}
	return h, err
}

// onHost is for CrewOptions.Wrap: each process is a host of its own.
func onHost(r *faults.Run, proc int, cmd *exec.Cmd) {
	h, err := siteOf(r).client(proc)
	if err == nil {
		err = h.Wrap(cmd)
	}
	if err != nil {
		cmd.Err = err // Start returns it
	}
}

// primary is the primary and its index.
func (s *site) primary(ctx context.Context) (*replset.Member, int, error) {
	m, err := s.WaitPrimary(ctx)
	if err != nil {
		return nil, 0, err
	}
	for i, other := range s.Members() {
		if other == m {
			return m, i, nil
		}
	}
	return nil, 0, fmt.Errorf("lab: %s is no member", m.Addr())
}

// others are the hosts of all members but one.
func (s *site) others(but int) []*Host {
	var all []*Host
	for i, h := range s.hosts {
		if i != but {
			all = append(all, h)
		}
	}
	return all
}
