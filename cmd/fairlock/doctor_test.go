//go:build linux || darwin || freebsd

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/internal/leastrole"
	"github.com/fairlock/fairlock/internal/replset"
)

// clinic is servers that doctor is sent to.
type clinic struct {
	*bench
	set   *replset.Set
	admin *mongo.Client
}

func newClinic(t *testing.T, o replset.Options) *clinic {
	b := newBench(t)
	c := &clinic{bench: b, set: replset.ForTest(t, o)}
	c.admin = c.connect(c.set.URI())
	return c
}

func (c *clinic) connect(uri string) *mongo.Client {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	require.NoError(c, err)
	c.Cleanup(func() { require.NoError(c, client.Disconnect(context.Background())) })
	return client
}

func (c *clinic) command(client *mongo.Client, cmd bson.D) {
	c.Helper()
	require.NoError(c, client.Database("admin").RunCommand(c.ctx(), cmd).Err(), "%v", cmd)
}

// diagnosis is what doctor printed as JSON, read by others than us.
type diagnosis struct {
	Database, Prefix, Level string
	Findings                []struct{ Check, Level, What, Do string }
}

// doctor runs it and asserts the exit code, which must fit the worst finding.
func (c *clinic) doctor(code int, uri string, args ...string) *diagnosis {
	c.Helper()
	p := c.start(append([]string{"doctor", "--json", "--uri", uri}, args...)...)
	p.exits(code)
	require.Empty(c, p.errors())
	var d diagnosis
	require.NoError(c, json.Unmarshal([]byte(p.output()), &d))
	require.Equal(c, map[string]int{"ok": 0, "note": 0, "warn": 1, "fail": 2}[d.Level], code)
	for _, f := range d.Findings {
		require.NotEmpty(c, f.What)
		require.True(c, f.Level == "ok" || f.Level == "note" || f.Do != "", "what to do is said: %+v", f)
	}
	return &d
}

// says asserts a finding.
func (c *clinic) says(d *diagnosis, check, level, what string) {
	c.Helper()
	for _, f := range d.Findings {
		if f.Check == check && f.Level == level && strings.Contains(f.What, what) {
			return
		}
	}
	require.Fail(c, "no such finding", "%s %s %q in %+v", check, level, what, d.Findings)
}

// bad lists the checks with a warning or a failure.
func (d *diagnosis) bad() (checks []string) {
	for _, f := range d.Findings {
		if f.Level == "warn" || f.Level == "fail" {
			checks = append(checks, f.Check)
		}
	}
	return checks
}

func (c *clinic) inDB(uri string) string { return withDatabase(uri, "clinic") }

// TestDoctorSet: three members are fine; then each thing that is done to them is found, and nothing else.
func TestDoctorSet(t *testing.T) {
	dir := t.TempDir()
	c := newClinic(t, replset.Options{Members: 3, DBPath: func(m int) string { return filepath.Join(dir, string(rune('a'+m))) }})
	uri := c.inDB(c.set.URI())
	require.Equal(t, []string{"indexes", "indexes", "indexes"}, c.doctor(1, uri).bad(), "before setup")
	c.start("setup", "--uri", uri).exits(0)

	d := c.doctor(0, uri)
	require.Empty(t, d.bad())
	require.Equal(t, "clinic", d.Database)
	for _, check := range []string{
		"deployment", "members", "clocks", "pool", "indexes", "majority", "change stream", "journal", "connections", "oplog",
	} {
		c.says(d, check, "ok", "")
	}
	c.says(d, "privileges", "note", "no login")
	p := c.start("doctor", "--uri", uri)
	p.exits(0)
	require.Regexp(t, `(?m)^ok    members        3 members with data, of which 1 may go away$`, p.output())
	list, err := c.admin.Database("clinic").Collection("fairlock.locks").CountDocuments(c.ctx(), bson.D{})
	require.NoError(t, err)
	require.Zero(t, list, "it changes nothing")

	// A tiny pool.
	d = c.doctor(1, uri+"&maxPoolSize=2")
	require.Equal(t, []string{"pool"}, d.bad())
	c.says(d, "pool", "warn", "maxPoolSize is 2")

	// An index that is missing, and one that deletes at another time.
	db := c.admin.Database("clinic")
	require.NoError(t, db.Collection("fairlock.tickets").Indexes().DropOne(c.ctx(), "session_1"))
	d = c.doctor(1, uri)
	require.Equal(t, []string{"indexes"}, d.bad())
	c.says(d, "indexes", "warn", "session_1 on clinic.fairlock.tickets is missing")
	c.start("setup", "--uri", uri).exits(0)
	require.NoError(t, db.RunCommand(c.ctx(), bson.D{
		{Key: "collMod", Value: "fairlock.sessions"},
		{Key: "index", Value: bson.D{{Key: "name", Value: "endedAt_1"}, {Key: "expireAfterSeconds", Value: 60}}},
	}).Err())
	d = c.doctor(1, uri)
	require.Equal(t, []string{"indexes"}, d.bad())
	c.says(d, "indexes", "warn", "endedAt_1 on clinic.fairlock.sessions does not delete after 24h0m0s")
	require.NoError(t, db.Collection("fairlock.sessions").Indexes().DropOne(c.ctx(), "endedAt_1"))
	c.start("setup", "--uri", uri).exits(0)

	c.arbiter(dir, uri)
}

// arbiter makes an arbiter of a secondary, and then kills the other one.
func (c *clinic) arbiter(dir, uri string) {
	c.Helper()
	second, err := c.set.Secondaries(c.ctx())
	require.NoError(c, err)
	require.Len(c, second, 2)
	vote, data := second[0], second[1]
	folder := ""
	for i, m := range c.set.Members() {
		if m == vote {
			folder = filepath.Join(dir, string(rune('a'+i)))
		}
	}
	// Without a default of its own the set would refuse the arbiter, by which the built-in one would fall to w:1.
	c.command(c.admin, bson.D{{Key: "setDefaultRWConcern", Value: 1}, {Key: "defaultWriteConcern", Value: bson.D{{Key: "w", Value: 1}}}})
	c.reconfigure(func(members []bson.M) []bson.M {
		var keep []bson.M
		for _, m := range members {
			if m["host"] != vote.Addr() {
				keep = append(keep, m)
			}
		}
		return keep
	})
	// It must not have data of another role.
	require.NoError(c, vote.Kill())
	entries, err := os.ReadDir(folder)
	require.NoError(c, err)
	for _, e := range entries {
		require.NoError(c, os.RemoveAll(filepath.Join(folder, e.Name())))
	}
	require.NoError(c, vote.Restart(c.ctx()))
	c.reconfigure(func(members []bson.M) []bson.M {
		return append(members, bson.M{"_id": 7, "host": vote.Addr(), "arbiterOnly": true, "priority": 0})
	})
	direct := c.connect("mongodb://" + vote.Addr() + "/?directConnection=true")
	c.eventually(func() bool {
		var h struct{ ArbiterOnly bool }
		err := direct.Database("admin").RunCommand(c.ctx(), bson.D{{Key: "hello", Value: 1}}).Decode(&h)
		return err == nil && h.ArbiterOnly
	}, "the arbiter")

	d := c.doctor(1, uri)
	require.Equal(c, []string{"arbiter"}, d.bad())
	c.says(d, "arbiter", "warn", vote.Addr()+" is an arbiter")

	require.NoError(c, data.Kill())
	d = c.doctor(2, uri)
	require.Equal(c, []string{"arbiter"}, d.bad())
	c.says(d, "arbiter", "fail", "with the arbiter "+vote.Addr()+" and without "+data.Addr()+" only 1 of the 2 members")
}

// reconfigure changes the members, once the change before is known to a majority.
func (c *clinic) reconfigure(change func([]bson.M) []bson.M) {
	c.Helper()
	var have struct{ Config bson.M }
	var in struct{ Config struct{ Members []bson.M } }
	admin := c.admin.Database("admin")
	raw, err := admin.RunCommand(c.ctx(), bson.D{{Key: "replSetGetConfig", Value: 1}}).Raw()
	require.NoError(c, err)
	require.NoError(c, bson.Unmarshal(raw, &have))
	require.NoError(c, bson.Unmarshal(raw, &in))
	have.Config["version"] = have.Config["version"].(int32) + 1
	have.Config["members"] = change(in.Config.Members)
	c.eventually(func() bool {
		err = admin.RunCommand(c.ctx(), bson.D{{Key: "replSetReconfig", Value: have.Config}}).Err()
		return err == nil
	}, "new configuration")
	require.NoError(c, err)
}

// TestDoctorStandalone: a server that is no replica set.
func TestDoctorStandalone(t *testing.T) {
	c := newClinic(t, replset.Options{Standalone: true})
	uri := c.inDB(c.set.URI())
	c.start("setup", "--uri", uri).exits(0)
	d := c.doctor(1, uri)
	require.Equal(t, []string{"deployment"}, d.bad())
	c.says(d, "deployment", "warn", "standalone server")
}

// TestDoctorSecure: who may do what, and a small oplog. What a user may not look at is a note and not a finding.
func TestDoctorSecure(t *testing.T) {
	c := newClinic(t, replset.Options{Members: 1, Secure: true, OplogMB: 64})
	require.NoError(t, leastrole.Apply(c.ctx(), c.admin, "../../docs/security.md"))
	db := c.admin.Database(leastrole.Database)
	c.start("setup", "--uri", c.set.URIFor(leastrole.SetupUser, leastrole.SetupPassword, leastrole.Database), "--db", leastrole.Database).exits(0)

	d := c.doctor(1, c.set.URI(), "--db", leastrole.Database)
	require.Equal(t, []string{"oplog"}, d.bad(), "as an administrator")
	c.says(d, "oplog", "warn", "64 MB: small")
	c.says(d, "privileges", "ok", "has what locks need")

	user := c.set.URIFor(leastrole.User, leastrole.Password, leastrole.Database)
	d = c.doctor(0, user, "--db", leastrole.Database)
	c.says(d, "privileges", "ok", "user fairlock@app has what locks need")
	c.says(d, "majority", "ok", "")
	c.says(d, "change stream", "ok", "")
	for _, check := range []string{"indexes", "journal", "oplog"} {
		c.says(d, check, "note", "this user lacks")
	}

	// Another prefix is other collections, which the role is not for.
	d = c.doctor(2, user, "--db", leastrole.Database, "--prefix", "other.")
	c.says(d, "privileges", "fail", "find, insert, update, remove, changeStream on app.other.locks")

	// Each privilege that is taken away is named.
	revoke := func(coll string, actions ...string) {
		require.NoError(t, db.RunCommand(c.ctx(), bson.D{
			{Key: "revokePrivilegesFromRole", Value: leastrole.Role},
			{Key: "privileges", Value: bson.A{bson.D{
				{Key: "resource", Value: bson.D{{Key: "db", Value: leastrole.Database}, {Key: "collection", Value: coll}}},
				{Key: "actions", Value: actions},
			}}},
		}).Err())
	}
	revoke("fairlock.locks", "changeStream")
	revoke("fairlock.tickets", "remove", "insert")
	d = c.doctor(2, user, "--db", leastrole.Database)
	c.says(d, "privileges", "fail", "user fairlock@app lacks changeStream on app.fairlock.locks; insert, remove on app.fairlock.tickets")
	c.says(d, "change stream", "warn", "waiters poll")

	// Nobody: the server wants a login.
	_, bare, ok := strings.Cut(c.set.URI(), "@")
	require.True(t, ok)
	d = c.doctor(2, "mongodb://"+bare, "--db", leastrole.Database)
	c.says(d, "privileges", "fail", "wants a login")

	// A wrong password is not let in at all.
	p := c.start("doctor", "--uri", c.set.URIFor(leastrole.User, "wrong", leastrole.Database)+"&serverSelectionTimeoutMS=3000")
	p.exits(69)
	require.NotContains(t, p.errors(), "wrong", "the password is not shown")
	require.Empty(t, p.output())
}

// TestDoctorNoPrimary: two of three are gone; what is left is asked all the same.
func TestDoctorNoPrimary(t *testing.T) {
	c := newClinic(t, replset.Options{Members: 3, ElectionTimeout: time.Second})
	second, err := c.set.Secondaries(c.ctx())
	require.NoError(t, err)
	for _, m := range second {
		require.NoError(t, m.Kill())
	}
	direct := c.connect("mongodb://" + c.set.Members()[0].Addr() + "," + c.set.Members()[1].Addr() + "," + c.set.Members()[2].Addr() + "/?replicaSet=fairlock&serverSelectionTimeoutMS=500")
	c.eventually(func() bool { return direct.Ping(c.ctx(), nil) != nil }, "step-down")
	d := c.doctor(2, c.inDB(c.set.URI()))
	require.Equal(t, []string{"members", "members"}, d.bad())
	c.says(d, "members", "fail", "there is no primary")
	c.says(d, "members", "fail", "only 1 of the 2 members")
	c.says(d, "privileges", "note", "no primary to ask")
}
