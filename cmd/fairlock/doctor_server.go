package main

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// leastConnections is how many more a server should take: a process has a pool of up to 100.
const leastConnections = 200

// lookAtServer looks at the primary's journal and connections.
func (p *patient) lookAtServer(ctx context.Context) {
	const check = "journal"
	if p.hello.Msg == "isdbgrid" {
		return // it has none
	}
	var status struct {
		Engine struct {
			Name       string `bson:"name"`
			Persistent *bool  `bson:"persistent"`
		} `bson:"storageEngine"`
		Connections struct {
			Current   int64 `bson:"current"`
			Available int64 `bson:"available"`
		} `bson:"connections"`
	}
	if err := p.run(ctx, "admin", &status, "serverStatus"); err != nil {
		p.unseen(check, err, "serverStatus (role clusterMonitor)")
		return
	}
	var cfg setConfig
	var cmdline struct {
		Parsed struct {
			Storage struct {
				Journal struct {
					Enabled *bool `bson:"enabled"`
				} `bson:"journal"`
			} `bson:"storage"`
		} `bson:"parsed"`
	}
	_ = p.run(ctx, "admin", &cmdline, "getCmdLineOpts") // older servers alone can be without a journal
	if p.hello.SetName != "" {
		if err := p.run(ctx, "admin", &cfg, "replSetGetConfig"); err != nil {
			p.unseen(check, err, "replSetGetConfig (role clusterMonitor)")
			return
		}
	}
	enabled, majority := cmdline.Parsed.Storage.Journal.Enabled, cfg.Config.MajorityJournal
	switch e := status.Engine; {
	case e.Persistent != nil && !*e.Persistent:
		p.found(check, fail, "use the storage engine wiredTiger", "storage engine %s keeps nothing on disk: a restart forgets all locks, and tokens begin anew", e.Name)
	case enabled != nil && !*enabled:
		p.found(check, fail, "start mongod without --nojournal", "off: a crash loses grants that were acknowledged")
	case majority != nil && !*majority:
		p.found(check, warn, "set writeConcernMajorityJournalDefault to true with rs.reconfig()",
			"writeConcernMajorityJournalDefault is false: others can read what a power cut of a majority takes back")
	default:
		p.found(check, fine, "", "on; majority writes are on disk when they are acknowledged")
	}
	if c := status.Connections; c.Available < leastConnections {
		p.found("connections", warn, "raise net.maxIncomingConnections and the limit of open files, or close some",
			"%d in use and only %d more possible", c.Current, c.Available)
	} else {
		p.found("connections", fine, "", "%d in use, %d more possible", c.Current, c.Available)
	}
}

// leastOplog is the least that a server itself chooses. leastWindow is how far back a full one should go.
const (
	leastOplog  = int64(990) << 20
	leastWindow = time.Hour
)

func (p *patient) lookAtOplog(ctx context.Context) {
	const check = "oplog"
	if p.hello.SetName == "" {
		return
	}
	var stats struct {
		Size float64 `bson:"size"`
		Max  float64 `bson:"maxSize"`
	}
	if err := p.ask(ctx, "local", &stats, bson.D{{Key: "collStats", Value: "oplog.rs"}}); err != nil {
		p.unseen(check, err, "collStats and find on local.oplog.rs (roles clusterMonitor, and read on local)")
		return
	}
	window, err := p.window(ctx)
	if err != nil {
		p.unseen(check, err, "find on local.oplog.rs (role read on local)")
		return
	}
	p.judgeOplog(int64(stats.Size), int64(stats.Max), window)
}

func (p *patient) judgeOplog(size, most int64, window time.Duration) {
	const check = "oplog"
	const help = `make it larger: db.adminCommand({replSetResizeOplog: 1, size: Double(4096)}) in mongosh, on each member`
	full := float64(size) > 0.9*float64(most)
	switch {
	case most < leastOplog:
		p.found(check, warn, help, "%d MB: small. A member that is away for longer than it goes back (now %s) must be copied anew, and a change "+
			"stream that lags by that long is opened afresh", most>>20, age(window))
	case full && window < leastWindow:
		p.found(check, warn, help, "it is full with %s of writes: a member that is away for longer must be copied anew", age(window))
	default:
		p.found(check, fine, "", "%d MB, goes back %s", most>>20, age(window))
	}
}

// window is the time between the oldest and the newest entry.
func (p *patient) window(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	oplog := p.client.Database("local").Collection("oplog.rs")
	var ends [2]struct {
		TS bson.Timestamp `bson:"ts"`
	}
	for i, order := range []int{1, -1} {
		err := oplog.FindOne(ctx, bson.D{}, options.FindOne().SetSort(bson.D{{Key: "$natural", Value: order}}).
			SetProjection(bson.D{{Key: "ts", Value: 1}})).Decode(&ends[i])
		if err != nil {
			return 0, err
		}
	}
	return time.Duration(ends[1].TS.T-ends[0].TS.T) * time.Second, nil
}
