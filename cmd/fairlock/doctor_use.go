package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/queue"
)

// leastPool is the smallest pool in which nothing of one manager waits for a connection: one is the change stream's, one the
// monitor's of renewals, and those who arrive, leave and look share the rest.
const leastPool = 10

// defaultPool is the driver's.
const defaultPool = 100

func (p *patient) lookAtPool() {
	size := uint64(defaultPool)
	if p.opts.MaxPoolSize != nil {
		size = *p.opts.MaxPoolSize
	}
	switch {
	case size == 0:
		p.found("pool", fine, "", "no limit")
	case size < leastPool:
		p.found("pool", warn, fmt.Sprintf("leave maxPoolSize out of the connection string (%d), or make it %d at least", defaultPool, leastPool),
			"maxPoolSize is %d: renewals and hand-offs wait for a connection, and with 1 waiters poll", size)
	default:
		p.found("pool", fine, "", "maxPoolSize is %d", size)
	}
}

// needs are the actions of docs/security.md.
var needs = []struct {
	coll    string
	actions []string
}{
	{"locks", []string{"find", "insert", "update", "remove", "changeStream"}},
	{"tickets", []string{"find", "insert", "update", "remove"}},
	{"sessions", []string{"find", "insert", "update", "remove"}},
}

// privilege is an entry of connectionStatus.
type privilege struct {
	Resource struct {
		DB   *string `bson:"db"`
		Coll *string `bson:"collection"`
		Any  bool    `bson:"anyResource"`
	} `bson:"resource"`
	Actions []string `bson:"actions"`
}

// grants reports whether it lets do action on the collection. An empty name in a resource stands for all.
func (v *privilege) grants(db, coll, action string) bool {
	all := func(pattern *string, name string) bool { return pattern != nil && (*pattern == "" || *pattern == name) }
	r := &v.Resource
	return (r.Any || all(r.DB, db) && all(r.Coll, coll)) &&
		(slices.Contains(v.Actions, action) || slices.Contains(v.Actions, "anyAction"))
}

// missing lists what is not granted, as "find, insert on app.fairlock.locks".
func missing(all []privilege, db, prefix string) []string {
	var lacks []string
	for _, n := range needs {
		var actions []string
		for _, a := range n.actions {
			if !slices.ContainsFunc(all, func(v privilege) bool { return v.grants(db, prefix+n.coll, a) }) {
				actions = append(actions, a)
			}
		}
		if len(actions) > 0 {
			lacks = append(lacks, strings.Join(actions, ", ")+" on "+db+"."+prefix+n.coll)
		}
	}
	return lacks
}

func (p *patient) lookAtPrivileges(ctx context.Context) {
	const check = "privileges"
	var status struct {
		Info struct {
			Users []struct {
				User string `bson:"user"`
				DB   string `bson:"db"`
			} `bson:"authenticatedUsers"`
			Privileges []privilege `bson:"authenticatedUserPrivileges"`
		} `bson:"authInfo"`
	}
	if err := p.run(ctx, "admin", &status, "connectionStatus", bson.E{Key: "showPrivileges", Value: true}); err != nil {
		p.found(check, fail, "look at user, password and authSource in the connection string", "not logged in: %v", err)
		return
	}
	if len(status.Info.Users) == 0 {
		within, cancel := context.WithTimeout(ctx, checkLimit)
		defer cancel()
		err := p.coll("locks").FindOne(within, bson.D{{Key: "_id", Value: nobody}}).Err()
		switch {
		case refused(err):
			p.found(check, fail, "put user and password into the connection string (docs/security.md has the role)", "the server wants a login, and there is none")
		case err != nil && !errors.Is(err, mongo.ErrNoDocuments):
			p.unseen(check, err, "find")
		default:
			p.found(check, note, "docs/security.md has the role for when it does", "the server wants no login: whoever can connect may do everything")
		}
		return
	}
	user := status.Info.Users[0].User + "@" + status.Info.Users[0].DB
	lacks := missing(status.Info.Privileges, p.db.Name(), p.Prefix)
	if len(lacks) == 0 {
		p.found(check, fine, "", "user %s has what locks need", user)
		return
	}
	p.found(check, fail, "grant it: docs/security.md has the role as a command", "user %s lacks %s", user, strings.Join(lacks, "; "))
}

// nobody is the id of no document: no lock's name has a tab in it.
const nobody = "\tdoctor"

// coll is a handle as fairlock itself has it.
func (p *patient) coll(name string) *mongo.Collection { return queue.Pinned(p.db, p.Prefix+name) }

// wanted are the indexes that setup makes.
var wanted = []struct {
	coll, key string
	deletes   time.Duration // 0: it deletes nothing
	without   string
}{
	{"locks", "idleSince", 24 * time.Hour, "locks that nobody uses any more are never deleted"},
	{"tickets", "session", 0, "to clear the dead, and to audit, all tickets are read"},
	{"sessions", "endedAt", 24 * time.Hour, "sessions that have ended are never deleted"},
}

func (p *patient) lookAtIndexes(ctx context.Context) {
	const check, help = "indexes", "run fairlock setup, as a user with the role fairlockSetup of docs/security.md"
	within, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	bad := false
	for _, w := range wanted {
		coll := p.coll(w.coll)
		specs, err := coll.Indexes().ListSpecifications(within)
		if err != nil {
			p.unseen(check, err, "listIndexes on "+p.db.Name()+"."+coll.Name())
			return
		}
		i := slices.IndexFunc(specs, func(s mongo.IndexSpecification) bool { return onlyKey(s.KeysDocument, w.key) })
		name := fmt.Sprintf("%s_1 on %s.%s", w.key, p.db.Name(), coll.Name())
		switch {
		case i < 0:
			p.found(check, warn, help, "index %s is missing: %s", name, w.without)
			bad = true
		case w.deletes > 0 && (specs[i].ExpireAfterSeconds == nil || time.Duration(*specs[i].ExpireAfterSeconds)*time.Second != w.deletes):
			p.found(check, warn, "drop it, and "+help, "index %s does not delete after %v: %s", name, w.deletes, w.without+", or too early")
			bad = true
		}
	}
	if !bad {
		p.found(check, fine, "", "all three are there")
	}
}

// onlyKey reports whether an index is on that field alone, in either direction.
func onlyKey(keys bson.Raw, field string) bool {
	elems, err := keys.Elements()
	return err == nil && len(elems) == 1 && elems[0].Key() == field
}

// slowMajority is when a write that changes nothing takes noticeably long.
const slowMajority = time.Second

// lookAtMajority makes a write that matches nothing, with the concern of fairlock's writes. Its acknowledgement waits for a majority all the
// same: for what was written before it.
func (p *patient) lookAtMajority(ctx context.Context) {
	const check = "majority"
	if p.short {
		return // which was told, and a write may be acknowledged all the same when nothing was written since
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	began := time.Now()
	_, err := p.coll("locks").UpdateOne(ctx, bson.D{{Key: "_id", Value: nobody}}, bson.D{{Key: "$set", Value: bson.D{{Key: "x", Value: 1}}}})
	took := time.Since(began).Round(time.Millisecond)
	switch {
	case refused(err):
		p.found(check, note, "", "not looked at: this user lacks update on %s.%slocks", p.db.Name(), p.Prefix)
	case err != nil:
		p.found(check, fail, "look at the members: enough of them with data must be up, and not far behind",
			"a majority write is not acknowledged after %v, so locks stand still: %v", took, err)
	case took > slowMajority:
		p.found(check, warn, "look at the secondaries' lag and at their disks", "a majority write took %v; a hand-off costs one", took)
	default:
		p.found(check, fine, "", "a majority write took %v; fairlock sets majority and journal itself, whatever the connection string says", took)
	}
}

func (p *patient) lookAtStream(ctx context.Context) {
	const check = "change stream"
	if p.short || p.hello.SetName == "" && p.hello.Msg == "" {
		return // a stream that is silent until members are back, or a standalone server: both were told
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	stream, err := p.coll("locks").Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetMaxAwaitTime(100*time.Millisecond))
	switch {
	case refused(err):
		p.found(check, warn, "grant changeStream and find: docs/security.md", "refused to this user: waiters poll, ten times a second")
	case err != nil:
		p.found(check, warn, "look at the server's log", "cannot be opened, so waiters poll: %v", err)
	default:
		_ = stream.Close(ctx)
		p.found(check, fine, "", "can be opened on %s.%slocks", p.db.Name(), p.Prefix)
	}
}
