package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"
)

// deploymentHello is what a server says of itself to everybody.
type deploymentHello struct {
	SetName  string    `bson:"setName"`
	Msg      string    `bson:"msg"` // "isdbgrid" of a mongos
	MaxWire  int       `bson:"maxWireVersion"`
	Hosts    []string  `bson:"hosts"`
	Passives []string  `bson:"passives"` // priority 0
	Arbiters []string  `bson:"arbiters"`
	Primary  bool      `bson:"isWritablePrimary"`
	Second   bool      `bson:"secondary"`
	Local    time.Time `bson:"localTime"`
}

// leastWire is the wire version of MongoDB 5.0.
const leastWire = 13

func (p *patient) lookAtDeployment(ctx context.Context) {
	var build struct{ Version string }
	version := "of unknown version"
	if err := p.run(ctx, "admin", &build, "buildInfo"); err == nil {
		version = build.Version
	}
	const check = "deployment"
	switch h := p.hello; {
	case h.MaxWire < leastWire:
		p.found(check, fail, "use MongoDB 5.0 or newer", "MongoDB %s: fairlock needs 5.0", version)
	case h.Msg == "isdbgrid":
		p.found(check, note, "keep fairlock's collections unsharded, on one shard",
			"sharded cluster, MongoDB %s: not tested; its members are not looked at", version)
	case h.SetName == "":
		p.found(check, warn, "make it a replica set of one at least: mongod --replSet rs0, and once rs.initiate() in mongosh",
			"standalone server, MongoDB %s: without change streams waiters poll, ten times a second, and it has no failover", version)
	default:
		p.found(check, fine, "", "replica set %s, MongoDB %s", h.SetName, version)
	}
}

// member is one server of the set, as it was met.
type member struct {
	host    string
	arbiter bool
	err     error // it does not answer
	hello   deploymentHello
	clock   clockSample
}

// serves reports whether it has the data and takes part.
func (m *member) serves() bool { return m.err == nil && (m.hello.Primary || m.hello.Second) }

// meetMembers asks each member itself. hello needs neither a privilege nor a login, which an arbiter could not check.
func (p *patient) meetMembers(ctx context.Context) {
	for _, host := range slices.Concat(p.hello.Hosts, p.hello.Passives) {
		p.members = append(p.members, member{host: host})
	}
	for _, host := range p.hello.Arbiters {
		p.members = append(p.members, member{host: host, arbiter: true})
	}
	var g errgroup.Group
	g.SetLimit(16)
	for i := range p.members {
		g.Go(func() error {
			p.members[i].meet(ctx, p.opts)
			return nil
		})
	}
	_ = g.Wait() // none returns one
}

// looksAtClock is how often a clock is read: the answer that took the least time says the most.
const looksAtClock = 5

func (m *member) meet(ctx context.Context, like *options.ClientOptions) {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	opts := options.Client().SetHosts([]string{m.host}).SetDirect(true).SetAppName("fairlock")
	opts.TLSConfig, opts.Dialer, opts.ServerAPIOptions, opts.Compressors = like.TLSConfig, like.Dialer, like.ServerAPIOptions, like.Compressors
	client, err := mongo.Connect(opts)
	if err != nil {
		m.err = err
		return
	}
	defer disconnect(ctx, client)
	for i := range looksAtClock {
		before := time.Now()
		err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&m.hello)
		after := time.Now()
		if err != nil {
			m.err = fmt.Errorf("%w: %w", errNotAnswered, err)
			return
		}
		if s := sampleOf(m.host, m.hello.Local, before, after); i == 0 || s.width() < m.clock.width() {
			m.clock = s
		}
	}
}

func (p *patient) hasPrimary() bool {
	return slices.ContainsFunc(p.members, func(m member) bool { return m.err == nil && m.hello.Primary })
}

// setConfig is what only those may read who have clusterMonitor.
type setConfig struct {
	Config struct {
		Members []struct {
			Host  string  `bson:"host"`
			Votes float64 `bson:"votes"`
		} `bson:"members"`
		MajorityJournal *bool `bson:"writeConcernMajorityJournalDefault"`
	} `bson:"config"`
}

// quorum is what a majority write needs.
type quorum struct {
	data, need int // members with data that vote, and how many of them must acknowledge
	up         int // of data
}

// spare is how many more members with data may go away.
func (q quorum) spare() int { return q.up - q.need }

// quorumOf counts. votes is nil where it is not known who votes: then all do.
func quorumOf(members []member, votes map[string]bool) quorum {
	var q quorum
	voters := 0
	for i := range members {
		m := &members[i]
		if votes != nil && !votes[m.host] {
			continue
		}
		voters++
		if m.arbiter {
			continue
		}
		q.data++
		if m.serves() {
			q.up++
		}
	}
	// An arbiter has a vote and nothing to acknowledge with.
	q.need = min(voters/2+1, q.data)
	return q
}

func (p *patient) lookAtMembers(ctx context.Context) {
	var cfg setConfig
	var votes map[string]bool
	if err := p.run(ctx, "admin", &cfg, "replSetGetConfig"); err == nil {
		votes = map[string]bool{}
		for _, m := range cfg.Config.Members {
			votes[m.Host] = m.Votes > 0
		}
	}
	q := quorumOf(p.members, votes)
	p.short = q.spare() < 0
	p.judgeMembers(q)
}

func (p *patient) judgeMembers(q quorum) {
	const check = "members"
	var down, arbiters []string
	for i := range p.members {
		switch m := &p.members[i]; {
		case m.arbiter:
			arbiters = append(arbiters, m.host)
			if m.err != nil {
				down = append(down, m.host+" (an arbiter)")
			}
		case !m.serves():
			down = append(down, m.host)
		}
	}
	if !p.hasPrimary() {
		p.found(check, fail, "bring back enough members for a majority, and look at rs.status() in mongosh",
			"there is no primary: locks stand still")
	}
	away, has := strings.Join(down, ", "), strings.Join(arbiters, ", ")
	switch {
	case q.spare() < 0 && len(arbiters) > 0:
		p.found("arbiter", fail, "bring it back; then give the arbiter's place to a member with data",
			"with the arbiter %s and without %s only %d of the %d members with data that a majority write needs are there: locks stand still",
			has, away, q.up, q.need)
	case q.spare() < 0:
		p.found(check, fail, "bring them back", "without %s only %d of the %d members that a majority write needs are there: locks stand still",
			away, q.up, q.need)
	case len(down) > 0:
		p.found(check, warn, "bring them back", "%s away or not ready; %d more members with data may go away before locks stand still",
			away, q.spare())
	}
	switch {
	case q.spare() < 0 || len(down) > 0:
	case len(arbiters) > 0 && q.spare() == 0:
		p.found("arbiter", warn, "give the arbiter's place to a member with data",
			"%s is an arbiter, which has a vote and no data: when one of the other members goes away, majority writes, and so locks, stand still", has)
	case q.data == 1:
		p.found(check, note, "for failover use three", "one member: while it is away locks stand still")
	case q.spare() == 0:
		p.found(check, warn, "use three", "%d members with data, none of which may go away without locks standing still", q.data)
	default:
		p.found(check, fine, "", "%d members with data, of which %d may go away", q.data, q.spare())
		if len(arbiters) > 0 {
			p.found("arbiter", note, "", "%s: has a vote and no data", has)
		}
	}
}

// clockSample is a reading of another machine's clock: at some moment between before and after, by our clock, it showed local. So
// its offset from ours is between low and high.
type clockSample struct {
	host      string
	low, high time.Duration
}

// sampleOf takes in that the server tells full milliseconds, cut off.
func sampleOf(host string, local, before, after time.Time) clockSample {
	return clockSample{host, local.Sub(after), local.Add(time.Millisecond).Sub(before)}
}

func (s clockSample) width() time.Duration { return s.high - s.low }

// mostSkew is how far clocks may be apart.
const mostSkew = time.Second

// skew is the pair of clocks that is apart the most, and by how much at least: what could be the network's delay is not counted.
func skew(all []clockSample) (ahead, behind string, by time.Duration) {
	for _, a := range all {
		for _, b := range all {
			if d := a.low - b.high; d > by {
				ahead, behind, by = a.host, b.host, d
			}
		}
	}
	return ahead, behind, by
}

func (p *patient) lookAtClocks() {
	var all []clockSample
	for i := range p.members {
		if m := &p.members[i]; m.serves() {
			all = append(all, m.clock)
		}
	}
	p.judgeClocks(all)
}

func (p *patient) judgeClocks(all []clockSample) {
	if len(all) < 2 {
		return
	}
	if ahead, behind, by := skew(all); by > mostSkew {
		p.found("clocks", warn, "run NTP (chrony, systemd-timesyncd) on all members, and let it step the clock that is wrong",
			"the clock of %s is at least %v ahead of that of %s: what is shown of ages and leases jumps at a failover, and idle documents go too early or late",
			ahead, by.Round(time.Millisecond), behind)
		return
	}
	p.found("clocks", fine, "", "those of %d members agree to a second, as far as the network's delay lets see", len(all))
}
