package fairlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/waiter"
)

func requireAsked(b *bed, l *Lock) {
	b.t.Helper()
	select {
	case <-l.Requested():
	default:
		require.Fail(b.t, "the holder was not told of the request")
	}
}

// TestRequestIsHeardBeforeItIsAskedFor: the process has read of a request before the holder wants to know.
func TestRequestIsHeardBeforeItIsAskedFor(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		l := p.lock("x")
		require.NoError(b.t, q.RequestRelease(b.ctx, "x"))
		time.Sleep(testTTL) // the audit has read the document
		requireAsked(b, l)
		b.unlock(l)
		b.requireIdle("x")
		require.Empty(b.t, p.requests.locks)
	})
}

// TestRequestAndGrantInOneRead: a lock was admitted and asked for, and its process hears of both at the same time.
func TestRequestAndGrantInOneRead(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		held := q.lock("x")
		next := p.begin("x")
		p.store.Deliver(func(waiter.Event) int { return 0 }) // the re-check has to tell
		b.unlock(held)
		require.False(b.t, next.over())
		require.NoError(b.t, q.RequestRelease(b.ctx, "x"))
		l := next.grantedIn(5 * time.Second)
		requireAsked(b, l)
		b.unlock(l)
	})
}

// TestRequestIsNotForAWriterWhoWaits: a part of its numbers was admitted when the readers were asked.
func TestRequestIsNotForAWriterWhoWaits(t *testing.T) {
	bubble(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		rw, err := p.RWLock("x")
		require.NoError(b.t, err)
		r, err := rw.RLock(b.ctx)
		require.NoError(b.t, err)
		writer := b.attempt(func(ctx context.Context) (*Lock, error) { return rw.Lock(ctx) })
		require.NoError(b.t, q.RequestRelease(b.ctx, "x"))
		time.Sleep(testTTL)
		requireAsked(b, r)
		b.unlock(r)
		l := writer.granted()
		select {
		case <-l.Requested():
			require.Fail(b.t, "the request was for the reader")
		default:
		}
		b.unlock(l)
	})
}
