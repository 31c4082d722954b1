package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"pgregory.net/rapid"
)

// TestSkew: the difference of two clocks is never said to be more than it is, whatever the network's delay, and is found when it is more than
// the delays can hide.
func TestSkew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Unix(1_800_000_000, 0)
		var all []clockSample
		var offsets []time.Duration
		var widest time.Duration
		for i := range rapid.IntRange(2, 7).Draw(t, "members") {
			offset := time.Duration(rapid.Int64Range(-5e9, 5e9).Draw(t, "offset"))
			before := base.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "before")))
			out := time.Duration(rapid.Int64Range(0, 5e8).Draw(t, "out"))
			back := time.Duration(rapid.Int64Range(0, 5e8).Draw(t, "back"))
			local := before.Add(out).Add(offset).Truncate(time.Millisecond)
			s := sampleOf(fmt.Sprint(i), local, before, before.Add(out+back))
			require.LessOrEqual(t, s.low, offset)
			require.GreaterOrEqual(t, s.high, offset)
			all, offsets, widest = append(all, s), append(offsets, offset), max(widest, s.width())
		}
		var truly time.Duration
		for _, a := range offsets {
			for _, b := range offsets {
				truly = max(truly, a-b)
			}
		}
		ahead, behind, by := skew(all)
		require.LessOrEqual(t, by, truly)
		require.GreaterOrEqual(t, by, truly-2*widest)
		if by > 0 {
			require.NotEqual(t, ahead, behind)
		}
	})
}

func TestJudgeClocks(t *testing.T) {
	t.Parallel()
	at := func(host string, offset time.Duration) clockSample {
		return clockSample{host, offset - time.Millisecond, offset + time.Millisecond}
	}
	for by, want := range map[time.Duration]level{
		0: fine, 900 * time.Millisecond: fine, 1002 * time.Millisecond: fine, 1003 * time.Millisecond: warn, time.Hour: warn,
	} {
		p := &patient{}
		p.judgeClocks([]clockSample{at("a", 0), at("b", -by), at("c", 0)})
		require.Len(t, p.Findings, 1)
		require.Equal(t, want, p.Level, by)
		if want == warn {
			require.Regexp(t, `clock of a is at least \S+ ahead of that of b`, p.Findings[0].What)
			require.Contains(t, p.Findings[0].Do, "NTP")
		}
	}
	p := &patient{}
	p.judgeClocks([]clockSample{at("alone", time.Hour)})
	require.Empty(t, p.Findings)
}

// setOf is members by letter: P primary, S secondary, A arbiter, and in lower case those that do not answer.
func setOf(letters string) (members []member) {
	for i, r := range letters {
		m := member{host: fmt.Sprintf("m%d", i)}
		switch r {
		case 'P':
			m.hello.Primary = true
		case 'S':
			m.hello.Second = true
		case 'A', 'a':
			m.arbiter = true
		}
		if r >= 'a' {
			m.err = errNotAnswered
		}
		members = append(members, m)
	}
	return members
}

// TestMembers: what is said of sets in every state.
func TestMembers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set   string
		votes map[string]bool
		level level
		check string // of the worst
		what  string
	}{
		{"PSS", nil, fine, "members", "3 members with data, of which 1 may go away"},
		{"PSSSS", nil, fine, "members", "of which 2 may go away"},
		{"P", nil, note, "members", "one member"},
		{"PS", nil, warn, "members", "none of which may go away"},
		{"PSs", nil, warn, "members", "m2 away or not ready; 0 more"},
		{"PSx", nil, warn, "members", "m2 away"},
		{"PS?", nil, warn, "members", "m2 away or not ready"},
		{"Pss", nil, fail, "members", "only 1 of the 2 members"},
		{"SS", nil, fail, "members", "there is no primary"},
		{"PSA", nil, warn, "arbiter", "m2 is an arbiter"},
		{"PsA", nil, fail, "arbiter", "with the arbiter m2 and without m1 only 1 of the 2 members"},
		{"PSa", nil, warn, "members", "m2 (an arbiter) away"},
		{"PSSSA", nil, note, "arbiter", "a vote and no data"},
		{"PSSsA", nil, warn, "members", "m3 away or not ready; 0 more"},
		{"PSssA", nil, fail, "arbiter", "only 2 of the 3"}, // 5 votes, so 3 must acknowledge
		{"PSS", map[string]bool{"m0": true}, note, "members", "one member"},
		{"PSs", map[string]bool{"m0": true, "m1": true}, warn, "members", "m2 away"},
	} {
		p := &patient{members: setOf(c.set)}
		p.judgeMembers(quorumOf(p.members, c.votes))
		require.Equal(t, c.level, p.Level, "%s: %v", c.set, p.Findings)
		var worst []string
		for _, f := range p.Findings {
			if f.Level == c.level && f.Check == c.check {
				worst = append(worst, f.What)
			}
			require.True(t, f.Level < warn || f.Do != "", "%s: %v", c.set, f)
		}
		require.NotEmpty(t, worst, "%s: %v", c.set, p.Findings)
		require.Contains(t, fmt.Sprint(worst), c.what, c.set)
	}
}

// TestMissing: a privilege is found in all the ways in which it can be granted.
func TestMissing(t *testing.T) {
	t.Parallel()
	grant := func(resource bson.D, actions ...string) privilege {
		raw, err := bson.Marshal(bson.D{{Key: "resource", Value: resource}, {Key: "actions", Value: actions}})
		require.NoError(t, err)
		var v privilege
		require.NoError(t, bson.Unmarshal(raw, &v))
		return v
	}
	on := func(db, coll string) bson.D { return bson.D{{Key: "db", Value: db}, {Key: "collection", Value: coll}} }
	all := []string{"find", "insert", "update", "remove", "changeStream"}
	for _, v := range []privilege{
		grant(on("", ""), all...), grant(on("app", ""), all...),
		grant(bson.D{{Key: "anyResource", Value: true}}, "anyAction"),
	} {
		require.Empty(t, missing([]privilege{v}, "app", "fairlock."), "%+v", v)
	}
	require.Equal(t, []string{
		"update, changeStream on app.fairlock.locks", "find, insert, update, remove on app.fairlock.tickets",
		"find, insert, update, remove on app.fairlock.sessions",
	}, missing([]privilege{
		grant(on("app", "fairlock.locks"), "find", "insert"), grant(on("", "fairlock.locks"), "remove"),
		grant(on("other", ""), all...), grant(on("app", "fairlock"), all...), grant(bson.D{{Key: "cluster", Value: true}}, "anyAction"),
	}, "app", "fairlock."))
}

func TestJudgeOplog(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, c := range []struct {
		size, most int64
		window     time.Duration
		want       level
	}{
		{0, 990 * mb, time.Second, fine},
		{980 * mb, 990 * mb, time.Hour, fine},
		{980 * mb, 990 * mb, 59 * time.Minute, warn},
		{0, 989 * mb, 100 * time.Hour, warn},
	} {
		p := &patient{}
		p.judgeOplog(c.size, c.most, c.window)
		require.Equal(t, c.want, p.Level, "%+v: %v", c, p.Findings)
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]level{
		"mongodb://h": fine, "mongodb://h/?maxPoolSize=0": fine, "mongodb://h/?maxPoolSize=10": fine, "mongodb://h/?maxPoolSize=9": warn,
		"mongodb://h/?maxPoolSize=1": warn,
	} {
		p := &patient{opts: options.Client().ApplyURI(uri)}
		p.lookAtPool()
		require.Equal(t, want, p.Level, uri)
	}
}

// TestDoctorPrint: what a server has said is made safe to print.
func TestDoctorPrint(t *testing.T) {
	t.Parallel()
	p := &patient{doctorReport: doctorReport{Database: "a\x1bb", Prefix: "p."}}
	p.found("x", fine, "", "%v", errors.New("evil\x1b[2J\nline"))
	p.found("y", fail, "do\tthis", "bad")
	var out bytes.Buffer
	require.NoError(t, p.print(&out))
	require.Equal(t, "database a\\x1bb, collections p.*\n"+
		"ok    x              evil\\x1b[2J\\nline\n"+
		"fail  y              bad\n"+
		"                     > do\\tthis\n", out.String())
}
