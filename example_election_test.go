package fairlock_test

import (
	"fmt"
	"time"

	"github.com/fairlock/fairlock"
)

// One leads, one stands by, and somebody else wants to know who leads.
func ExampleElection() {
	// Leaders are seen when they have a ticket, by default a second after they came.
	a, b, end := processes(&fairlock.Config{TicketDelay: time.Millisecond})
	defer end()

	scheduler, err := a.Election("scheduler")
	if err != nil {
		fmt.Println(err)
		return
	}
	leads, err := scheduler.Campaign(ctx, "10.0.0.1:8080") // returns when this process leads
	if err != nil {
		fmt.Println(err)
		return
	}
	standby, _ := b.Election("scheduler")
	won := make(chan *fairlock.Leadership)
	go func() {
		l, _ := standby.Campaign(ctx, "10.0.0.2:8080")
		won <- l
	}()
	inLine(a, "scheduler", 1)

	for leader, err := range standby.Observe(ctx) {
		if err != nil {
			fmt.Println(err)
			continue // it is tried again
		}
		fmt.Println("leader:", leader.Value)
		if leader.Token != leads.Token() {
			break
		}
		fmt.Println("leads:", leads.Err() == nil) // the leader's own proof
		_ = leads.Resign(ctx)
		<-leads.Done()
	}
	next := <-won
	fmt.Println("the next has a larger token:", next.Token() > leads.Token())
	_ = next.Resign(ctx)
	// Output:
	// leader: 10.0.0.1:8080
	// leads: true
	// leader: 10.0.0.2:8080
	// the next has a larger token: true
}

// Leader asks once.
func ExampleElection_Leader() {
	m, _, end := processes(&fairlock.Config{TicketDelay: time.Millisecond})
	defer end()

	scheduler, _ := m.Election("scheduler")
	_, err := scheduler.Leader(ctx)
	fmt.Println(err)
	leads, err := scheduler.Campaign(ctx, "10.0.0.1:8080")
	if err != nil {
		fmt.Println(err)
		return
	}
	seen(m, "scheduler")
	leader, err := scheduler.Leader(ctx)
	fmt.Println(leader.Value, err)
	_ = leads.Resign(ctx)
	// Output:
	// fairlock: no leader of "scheduler"
	// 10.0.0.1:8080 <nil>
}
