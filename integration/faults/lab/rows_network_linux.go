package lab

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/integration/faults"
)

// afterLease is how long after the end of a lease the next in line is served: a look of a waiter, and a few writes.
const afterLease = 5 * time.Second

// failover is the longest gap that a lost primary may make: 10 to 12 s until another is elected, up to 10 s more in which it catches up,
// some 6 s more until the one that is left gives up reporting to the lost one, before which no write is confirmed, and then a few writes
// that take a heartbeat of 2 s each, behind calls that were sent before all that and take the whole of their time-out.
const failover = 40 * time.Second

// busyGate is why rows with hosts have a lower gate where nearly each wait has a ticket: three writes for each.
const busyGate = "all packets go through this process, on the cores that servers and clients share, and short ticket delays triple the writes"

var networked = kind{network: true}

// partitionPrimary cuts the primary off from everybody.
func partitionPrimary() faults.Row {
	return faults.Row{
		Name:   "partition-primary",
		About:  "the primary is cut off from all members and all clients until another serves, and comes back",
		Deploy: networked.deploy,
		Crew:   faults.CrewOptions{Wrap: onHost},
		Bound:  failover,
		Expect: faults.NoNeedlessLosses,
		Fault: func(ctx context.Context, r *faults.Run) error {
			s := siteOf(r)
			return r.Rounds(ctx, 200*time.Millisecond, 2*time.Second, func(int) error {
				_, i, err := s.primary(ctx)
				if err != nil {
					return err
				}
				from := r.Now()
				s.net.Isolate(s.hosts[i], Link{Down: true})
				r.Mark(faults.Mark{What: "primary cut off", From: from, Fresh: faults.Sent})
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				if err := r.Sleep(ctx, r.Between(0, 5*time.Second)); err != nil {
					return err
				}
				s.net.Isolate(s.hosts[i], Link{})
				return s.WaitHealthy(ctx)
			})
		},
	}
}

// partitionPeers cuts the primary off from the other members only. Clients go on talking to it until it gives up.
func partitionPeers() faults.Row {
	const ttl = 5 * time.Second
	return faults.Row{
		Name:   "partition-peers",
		About:  "the primary loses the other members and keeps its clients: its writes fail, and holders are told within their lease",
		Deploy: networked.deploy,
		Gate:   40, WhyGate: busyGate,
		Crew:   faults.CrewOptions{Wrap: onHost, TTL: ttl, TicketDelay: 20 * time.Millisecond},
		Bound:  failover,
		Leaves: "the outage is longer than the lease, so living processes may be ended by others and leave that session",
		Fault: func(ctx context.Context, r *faults.Run) error {
			s := siteOf(r)
			return r.Rounds(ctx, 200*time.Millisecond, 2*time.Second, func(round int) error {
				h, err := holdAndWait(ctx, r, round)
				if err != nil {
					return err
				}
				_, i, err := s.primary(ctx)
				if err != nil {
					return err
				}
				from := r.Now()
				for _, o := range s.others(i) {
					s.net.Set(s.hosts[i], o, Link{Down: true})
				}
				r.Mark(faults.Mark{What: "peers lost", From: from, Fresh: faults.Sent})
				r.Mark(faults.Mark{What: "peers lost, next of a held lock", Lock: h.lock, From: from})
				if err := h.told(ctx, r, from, ttl); err != nil {
					return err
				}
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				for _, o := range s.others(i) {
					s.net.Set(s.hosts[i], o, Link{})
				}
				if err := h.resume(ctx); err != nil {
					return err
				}
				return s.WaitHealthy(ctx)
			})
		},
	}
}

// partitionClient cuts off one process.
func partitionClient() faults.Row {
	const ttl = 3 * time.Second
	return faults.Row{
		Name:   "partition-client",
		About:  "a process that holds a lock is cut off: it is told within its lease, the next is served, and it comes back",
		Deploy: networked.deploy,
		Gate:   40, WhyGate: busyGate,
		Crew:   faults.CrewOptions{Wrap: onHost, TTL: ttl, TicketDelay: 20 * time.Millisecond},
		Bound:  ttl + afterLease,
		Leaves: "who is cut off for longer than its lease is ended by others and leaves that session",
		Short:  20 * time.Second,
		Fault: func(ctx context.Context, r *faults.Run) error {
			s := siteOf(r)
			return r.Rounds(ctx, 100*time.Millisecond, time.Second, func(round int) error {
				h, err := holdAndWait(ctx, r, round)
				if err != nil {
					return err
				}
				host, err := s.client(h.proc.ID)
				if err != nil {
					return err
				}
				from := r.Now()
				s.net.Isolate(host, Link{Down: true})
				r.Mark(faults.Mark{What: "client cut off", Lock: h.lock, From: from})
				if err := h.told(ctx, r, from, ttl); err != nil {
					return err
				}
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				s.net.Isolate(host, Link{})
				return h.resume(ctx)
			})
		},
	}
}

// bad is the link of the rows with slow links. The delay is one way, so a round trip takes twice that.
var bad = Link{Delay: 200 * time.Millisecond, Loss: 0.05}

// slowMembers has bad links between the members, and slowClients between them and the clients.
func slowMembers() faults.Row {
	return slow("slow-members", "between members packets take 200 ms each way and one in twenty is lost",
		func(s *site, l Link) error {
			s.net.Among(l, s.hosts...)
			return nil
		})
}

func slowClients() faults.Row {
	return slow("slow-clients", "between clients and members packets take 200 ms each way and one in twenty is lost",
		func(s *site, l Link) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, c := range s.clients {
				for _, m := range s.hosts {
					s.net.Set(c, m, l)
				}
			}
			return nil
		})
}

func slow(name, about string, set func(*site, Link) error) faults.Row {
	return faults.Row{
		Name:   name,
		About:  about,
		Deploy: networked.deploy,
		Crew:   faults.CrewOptions{Wrap: onHost},
		// A number asked for over the bad links: a few round trips, and up to two repeats of a lost packet, which come after 0.6 and 1.2 s.
		Bound:  10 * time.Second,
		Short:  20 * time.Second,
		Expect: faults.NoLosses,
		Fault: func(ctx context.Context, r *faults.Run) error {
			s := siteOf(r)
			s.net.Seed(r.Seed)
			return r.Rounds(ctx, 200*time.Millisecond, time.Second, func(int) error {
				for _, step := range []struct {
					what string
					link Link
				}{{"links turn bad", bad}, {"links turn good", Link{}}} {
					from := r.Now()
					if err := set(s, step.link); err != nil {
						return err
					}
					r.Mark(faults.Mark{What: step.what, From: from, Fresh: faults.Sent})
					if err := r.Recovered(ctx); err != nil {
						return err
					}
					if step.link == bad {
						if err := r.Sleep(ctx, r.Between(8*time.Second, 12*time.Second)); err != nil {
							return err
						}
					}
				}
				return nil
			})
		},
	}
}
