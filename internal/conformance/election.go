package conformance

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

var electionCases = []testCase{
	{"leaders follow in the order of their campaigns", leadersFollow},
	{"the leader is seen", leaderIsSeen},
	{"leadership ends with Close", leadershipEnds},
	{"an observer sees the next leader", observerSees},
}

func (b *bed) election(p *Process) *fairlock.Election {
	b.t.Helper()
	e, err := p.Election("e")
	require.NoError(b.t, err)
	require.Equal(b.t, "e", e.Name())
	return e
}

// candidate is a campaign that waits.
type candidate struct {
	*call
	leads *fairlock.Leadership
}

func (b *bed) campaign(p *Process, value string) *candidate {
	b.t.Helper()
	e := b.election(p)
	c := &candidate{}
	c.call = b.begin(p, "e", func(ctx context.Context) (_ *fairlock.Lock, err error) {
		c.leads, err = e.Campaign(ctx, value)
		return nil, err
	})
	return c
}

func (c *candidate) won() *fairlock.Leadership {
	c.b.t.Helper()
	<-c.done
	require.NoError(c.b.t, c.err)
	return c.leads
}

func leadersFollow(b *bed) {
	p, q := b.process(), b.process()
	first := b.campaign(p, "p").won()
	second := b.campaign(q, "q")
	second.waits()
	require.NoError(b.t, first.Err())
	require.Positive(b.t, first.Left())
	require.NoError(b.t, first.Resign(b.ctx))
	<-first.Done()
	require.ErrorIs(b.t, first.Err(), fairlock.ErrUnlocked)
	require.ErrorIs(b.t, context.Cause(first.Context()), fairlock.ErrUnlocked)
	next := second.won()
	require.Greater(b.t, next.Token(), first.Token())
	require.NoError(b.t, next.Resign(b.ctx))
}

func leaderIsSeen(b *bed) {
	p, q := b.process(seenSoon), b.process()
	e := b.election(q)
	_, err := e.Leader(b.ctx)
	require.ErrorIs(b.t, err, fairlock.ErrNoLeader)
	require.ErrorContains(b.t, err, `"e"`)
	leads := b.campaign(p, "10.0.0.7:80").won()
	var seen fairlock.Leader
	b.until("the leader", func() bool {
		seen, err = e.Leader(b.ctx)
		return err == nil
	})
	require.Equal(b.t, "10.0.0.7:80", seen.Value)
	require.Equal(b.t, leads.Token(), seen.Token)
	require.Equal(b.t, p.Session(), seen.Session)
	require.NoError(b.t, leads.Resign(b.ctx))
	_, err = e.Leader(b.ctx)
	require.ErrorIs(b.t, err, fairlock.ErrNoLeader)
}

func leadershipEnds(b *bed) {
	p, q := b.process(), b.process()
	leads := b.campaign(p, "p").won()
	next := b.campaign(q, "q")
	require.NoError(b.t, p.Close(b.ctx))
	<-leads.Done()
	b.requireLost(leads.Err(), fairlock.LostClosed)
	require.NoError(b.t, next.won().Resign(b.ctx))
}

func observerSees(b *bed) {
	p, q, looker := b.process(seenSoon), b.process(seenSoon), b.process()
	leads := b.campaign(p, "p").won()
	next := b.campaign(q, "q")
	var seen []string
	for l, err := range b.election(looker).Observe(b.ctx) {
		require.NoError(b.t, err)
		seen = append(seen, l.Value)
		if len(seen) == 2 {
			break
		}
		require.Equal(b.t, leads.Token(), l.Token)
		require.NoError(b.t, leads.Resign(b.ctx))
	}
	require.Equal(b.t, []string{"p", "q"}, seen)
	require.NoError(b.t, next.won().Resign(b.ctx))
}
