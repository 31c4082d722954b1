package demo

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock"
)

func TestHandoffs(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	hold := func(worker int, wait, grant, end int64, how How) Hold {
		return Hold{Worker: worker, Wait: wait * ms, Grant: grant * ms, End: end * ms, How: how}
	}
	grants := []Hold{
		hold(1, 0, 10, 20, Unlocked),
		hold(2, 1, 24, 30, Unlocked),    // across: 4
		hold(2, 2, 31, 40, Unlocked),    // within: 1
		hold(1, 35, 47, 50, Unlocked),   // called while the one before held: not counted
		hold(3, 5, 53, 60, Killed),      // across: 3
		hold(1, 5, 90, 95, Unlocked),    // after a kill
		hold(2, 50, 104, 110, Unlocked), // within a disturbance
		hold(3, 51, 115, 120, Unlocked), // across: 5
	}
	all := []*Disturbance{{From: 96 * ms, To: 109 * ms}}
	h := measureHandoffs(grants, all)
	require.Equal(t, []time.Duration{4e6, 3e6, 5e6}, h.across)
	require.Equal(t, []time.Duration{1e6}, h.within)
	require.Equal(t, []time.Duration{26e6, 57e6}, h.idle)
	require.Equal(t, 1, h.struck)

	d := &Disturbance{Worker: 3, From: 59 * ms, To: 109 * ms}
	(&plan{all: []*Disturbance{d}}).measure(grants)
	require.Equal(t, Millis(31), d.Recovery)
	require.Equal(t, Millis(31), d.Gap)
}

// TestObserverSees: what counts as an arrival.
func TestObserverSees(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	o := &observer{moved: make(chan struct{})}
	see := func(op string, updated, full, settled *int64) {
		var c change
		c.Op, c.Updated.Fields.Issued, c.Full.Issued, c.Full.Settled = op, updated, full, settled
		o.see(c)
	}
	see("insert", nil, n(103), n(100))
	see("update", nil, nil, nil)        // a settle
	see("update", n(104), nil, nil)     //
	see("replace", nil, n(104), n(103)) // a settle that was logged as a replace
	see("replace", nil, n(106), n(103)) // an arrival that was
	see("delete", nil, nil, nil)        // and made anew:
	see("insert", nil, n(501), n(500))  //
	require.Equal(t, []Arrival{{100, 103}, {103, 104}, {104, 106}, {500, 501}}, o.arrivals)
	got, err := o.upTo(t.Context(), 501)
	require.NoError(t, err)
	require.Len(t, got, 4)
}

func testSummary() *Summary {
	return &Summary{Proofs: Check(sound()), OK: true, Disturbances: []*Disturbance{{Kind: KillHolder}, {Kind: KillWaiter}, {Kind: StepDown}}}
}

// TestSummaryShowsEvidence: what failed, and why, is on the screen.
func TestSummaryShowsEvidence(t *testing.T) {
	t.Parallel()
	r := sound()
	r.Rows = r.Rows[:11]
	s := testSummary()
	s.Proofs = Check(r)
	var b bytes.Buffer
	NewPlain(&b).Summary(s)
	require.Contains(t, b.String(), "FAIL no gap")
	require.Contains(t, b.String(), "invoice 12 is missing")
	require.Contains(t, b.String(), "FAILED: no gap, every line once")
	require.NotContains(t, b.String(), "\x1b")

	b.Reset()
	NewPlain(&b).Summary(testSummary())
	require.Contains(t, b.String(), "all proofs hold")
	require.NotContains(t, b.String(), "FAIL")
}

func TestJSONView(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	v := NewJSON(&b)
	v.Note(Note{Kind: NoteKillHolder, Text: "x", Worker: 3, PID: 4})
	v.Status(Status{At: 2 * time.Second})
	v.Status(Status{At: 2*time.Second + 1}) // too soon
	v.Summary(testSummary())
	var types []string
	for line := range strings.Lines(b.String()) {
		var o struct {
			Type string `json:"type"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &o), line)
		types = append(types, o.Type)
	}
	require.Equal(t, []string{"note", "status", "summary"}, types)
}

// TestLivePicture: whatever is to be shown, the picture is never larger than the screen, and without colours it has none.
func TestLivePicture(t *testing.T) {
	t.Parallel()
	q := &fairlock.LockInfo{Holders: []fairlock.Place{{Token: 1}}}
	for i := range 40 {
		q.Waiters = append(q.Waiters, fairlock.Place{Token: int64(i), Position: i + 1, Owner: &fairlock.Owner{
			Label: "worker\x1b[31m 1\n/2 " + strings.Repeat("ü", 200), PID: 12345, LeaseLeft: time.Duration(20-i) * time.Second, Dead: i == 39,
		}})
	}
	for _, size := range [][2]int{{80, 24}, {200, 100}, {20, 8}, {1, 1}, {0, 0}} {
		var b bytes.Buffer
		l := NewLive(&b, func() (int, int) { return size[0], size[1] }, false)
		for range 20 {
			l.Note(Note{Text: "something happened \x1b[2J"})
		}
		l.Status(Status{At: 3 * time.Second, Rows: 3, Total: 10, Queue: q, Doing: "a step-down"})
		lines := l.picture(size[0], max(size[1]-liveMargin, 4))
		require.LessOrEqual(t, len(lines), max(size[1]-liveMargin, 4))
		for _, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), max(size[0], 3))
			require.NotContains(t, line, "\x1b")
		}
		require.NotRegexp(t, "\x1b\\[[0-9;]*m", b.String())
	}
}
