package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/reaper"
)

// TestSessionsOnAServer: what the writes of session documents do on a real server, each rule that a lease or a reaper rests on.
func TestSessionsOnAServer(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := withLimit(t)
	s := reaper.Open(b.db, "fairlock.")
	get := func(id string) reaper.Session {
		t.Helper()
		all, err := s.Get(ctx, []string{id})
		require.NoError(t, err)
		require.Len(t, all, 1)
		return all[0]
	}
	lives := reaper.Session{ID: "lives", TTLMS: 60_000, Host: "$beat", PID: 7, Label: "$_id"}
	for i := range int64(2) {
		require.NoError(t, s.Begin(ctx, lives), "may be repeated")
		require.Equal(t, i+1, get("lives").Beat)
	}
	require.NoError(t, failure(s.Renew(ctx, "lives", lives.TTL())))
	have := get("lives")
	require.EqualValues(t, 3, have.Beat, "each renewal is a real change")
	require.Equal(t, []any{"$beat", 7, "$_id", lives.TTL()}, []any{have.Host, have.PID, have.Label, have.TTL()})

	ended, err := s.End(ctx, "lives", 3)
	require.NoError(t, err)
	require.False(t, ended, "its lease runs by the server's clock")
	require.NoError(t, s.Bury(ctx, "lives"), "it is there after all")
	require.False(t, get("lives").Ended)
	require.NoError(t, s.MarkCleared(ctx, "lives"))
	require.False(t, get("lives").Cleared)

	require.NoError(t, s.Begin(ctx, reaper.Session{ID: "dies", TTLMS: 1}))
	over := get("dies").ExpiresAt
	eventually(t, "over by the server's clock", func() bool {
		now, err := s.Now(ctx)
		require.NoError(t, err)
		return now.After(over)
	})
	for _, c := range []struct {
		beat int64
		want bool
	}{{2, false}, {1, true}, {1, false}} {
		ended, err := s.End(ctx, "dies", c.beat)
		require.NoError(t, err)
		require.Equal(t, c.want, ended, "the write requires the beat that was seen, and ends once")
	}
	require.NoError(t, s.Bury(ctx, "never was"))
	for _, id := range []string{"dies", "never was"} {
		require.True(t, get(id).Ended)
		require.NotNil(t, get(id).EndedAt)
		require.ErrorIs(t, failure(s.Renew(ctx, id, lives.TTL())), reaper.ErrEnded, id)
		require.ErrorIs(t, s.Begin(ctx, reaper.Session{ID: id, TTLMS: 60_000}), reaper.ErrEnded, id)
		require.True(t, get(id).Ended, "for ever")
	}
	require.NoError(t, s.MarkCleared(ctx, "dies"))
	var left []string
	all, err := s.Uncleared(ctx, "", 10)
	require.NoError(t, err)
	for _, x := range all {
		left = append(left, x.ID)
	}
	require.Equal(t, []string{"lives", "never was"}, left)

	require.NoError(t, s.Remove(ctx, "lives"))
	require.ErrorIs(t, failure(s.Renew(ctx, "lives", lives.TTL())), reaper.ErrEnded, "a renewal makes no session")
	all, err = s.Get(ctx, []string{"lives"})
	require.NoError(t, err)
	require.Empty(t, all)
}
