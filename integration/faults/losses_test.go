package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/integration/faults"
	"github.com/fairlock/fairlock/internal/clock"
	"github.com/fairlock/fairlock/internal/history"
)

// TestNeedless: of a lease of 30 s that was last renewed at 0 the trust ended at 27 s, and renewals were due from 10 s on.
func TestNeedless(t *testing.T) {
	t.Parallel()
	at := func(s float64) clock.Instant { return clock.Instant(time.Duration(s * float64(time.Second))) }
	told := func(s float64, why fairlock.LossReason) history.Event {
		err := &fairlock.LostError{Name: "x", Token: 1, Reason: why}
		return history.Event{Kind: history.Lost, At: at(s), Proc: 1, Call: 7, Lock: "x", Err: err.Error()}
	}
	arrived := func(proc int, sent, acked float64) history.Event {
		return history.Event{Kind: history.Arrived, Sent: at(sent), At: at(acked), Proc: proc, Lock: "y"}
	}
	promise := history.Event{Kind: history.Trusted, At: at(11), Until: at(27), Proc: 1, Call: 7, Lock: "x"}
	for _, c := range []struct {
		name     string
		events   []history.Event
		needless bool
	}{
		{"nothing was confirmed", []history.Event{promise, told(27, fairlock.LostLease)}, false},
		{"a write was confirmed", []history.Event{promise, arrived(1, 13, 13.1), told(27, fairlock.LostLease)}, true},
		{"before a renewal was due", []history.Event{promise, arrived(1, 9, 13), told(27, fairlock.LostLease)}, false},
		{"too late for another renewal", []history.Event{promise, arrived(1, 20, 26), told(27, fairlock.LostLease)}, false},
		{"to another process", []history.Event{promise, arrived(2, 13, 13.1), told(27, fairlock.LostLease)}, false},
		{"told so late that the lease may have been another", []history.Event{promise, arrived(1, 13, 13.1), told(30, fairlock.LostLease)}, false},
		{"told late, and a write is between for each lease that it may have been", []history.Event{promise, arrived(1, 20, 20.1), told(30, fairlock.LostLease)}, true},
		{"of a lease that was never asked about", []history.Event{
			{Kind: history.Granted, At: at(26), Proc: 1, Call: 7, Lock: "x"}, arrived(1, 13, 13.1), told(27, fairlock.LostLease),
		}, true},
		{"without a ticket, and nothing was confirmed", []history.Event{promise, told(27, fairlock.LostTicket)}, false},
		{"without a ticket, and a write was confirmed", []history.Event{promise, arrived(1, 13, 13.1), told(27, fairlock.LostTicket)}, true},
		{"ended by another", []history.Event{promise, told(12, fairlock.LostSession)}, true},
		{"settled by another", []history.Event{promise, told(12, fairlock.LostSettled)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broken := faults.Needless(c.events, 30*time.Second)
			require.Len(t, broken, map[bool]int{true: 1}[c.needless], "%q", broken)
			if c.needless {
				require.Contains(t, broken[0], fmt.Sprintf("process 1 call 7 lost %q", "x"))
			}
		})
	}
}
