package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/queue"
)

const doctorLong = `doctor looks at the MongoDB deployment as fairlock uses it, and says what is wrong and what to do about it. It changes nothing.

  deployment     replica set, sharded cluster or standalone server, and its version
  members        is there a primary; how many members may be away; arbiters
  clocks         do the members' clocks agree to a second
  pool           maxPoolSize in the connection string
  privileges     has this user what locks need (docs/security.md)
  indexes        has setup been run
  majority       is a majority write acknowledged, and in what time
  change stream  can one be opened
  journal        are writes on disk when they count as done
  connections    how many more the server takes
  oplog          its size, and how far back it goes

  ok    as it should be
  note  good to know; or not looked at, and why. Locks need no right to look at indexes, journal and oplog: ask as an administrator
        (role clusterMonitor, and read on the database local) for these
  warn  it works, and costs time, safety or comfort
  fail  locks do not work, or stand still

Exit code 0: ok and notes; 1: a warning; 2: a failure; 69: no server answers at all.`

func newDoctorCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Find out what is wrong with the deployment",
		Long:  doctorLong,
		Example: "  fairlock doctor\n" +
			"  fairlock doctor --json | jq '.findings[] | select(.level != \"ok\")'",
		Args:                  noArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return interruptible(cmd.Context(), func(ctx context.Context) error { return doctor(ctx, cmd, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: database, prefix, level (of the worst) and findings (check, level, what, do)")
	return cmd
}

// level is how bad a finding is.
type level int

const (
	fine level = iota
	note
	warn
	fail
)

func (l level) String() string { return [...]string{"ok", "note", "warn", "fail"}[l] }

// MarshalText implements encoding.TextMarshaler.
func (l level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// finding is what doctor says of one thing.
type finding struct {
	Check string `json:"check"`
	Level level  `json:"level"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"`
}

// report is doctor's JSON.
type doctorReport struct {
	Database string    `json:"database"`
	Prefix   string    `json:"prefix"`
	Level    level     `json:"level"` // of the worst finding
	Findings []finding `json:"findings"`
}

// patient is the deployment that is looked at.
type patient struct {
	client *mongo.Client
	opts   *options.ClientOptions
	db     *mongo.Database

	hello   deploymentHello
	members []member
	short   bool // of members for a majority write
	doctorReport
}

// found adds a finding; to do is "" or what helps.
func (p *patient) found(check string, l level, todo, format string, args ...any) {
	p.Level = max(p.Level, l)
	p.Findings = append(p.Findings, finding{check, l, fmt.Sprintf(format, args...), todo})
}

// checkLimit bounds each look. What takes longer is a finding.
const checkLimit = 5 * time.Second

func doctor(ctx context.Context, cmd *cobra.Command, asJSON bool) error {
	s := sharedOf(cmd)
	client, opts, err := s.client()
	if err != nil {
		return err
	}
	defer disconnect(ctx, client)
	p := &patient{client: client, opts: opts, db: client.Database(s.database())}
	p.Database, p.Prefix, p.Findings = p.db.Name(), s.collections(), []finding{}
	if err := p.examine(ctx); err != nil {
		return err
	}
	if asJSON {
		err = view{out: cmd.OutOrStdout()}.json(p.doctorReport)
	} else {
		err = p.print(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	switch p.Level {
	case warn:
		return exitCode(exitCostly)
	case fail:
		return exitCode(exitBroken)
	}
	return nil
}

// examine makes all findings. Its error means that there is nobody to ask.
func (p *patient) examine(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if err := p.run(within, "admin", &p.hello, "hello"); err != nil {
		return fmt.Errorf("%w: not reachable: %w", fairlock.ErrServer, err)
	}
	p.lookAtDeployment(ctx)
	if p.hello.SetName != "" {
		p.meetMembers(ctx)
		p.lookAtMembers(ctx)
		p.lookAtClocks()
	}
	p.lookAtPool()
	if p.hello.SetName != "" && !p.hasPrimary() {
		p.found("privileges", note, "", "nor anything below was looked at: there is no primary to ask")
		return ctx.Err()
	}
	p.lookAtPrivileges(ctx)
	p.lookAtIndexes(ctx)
	p.lookAtMajority(ctx)
	p.lookAtStream(ctx)
	p.lookAtServer(ctx)
	p.lookAtOplog(ctx)
	return ctx.Err() // a signal: what was cut short is no finding
}

// run asks with a command that has no value.
func (p *patient) run(ctx context.Context, db string, into any, command string, more ...bson.E) error {
	return p.ask(ctx, db, into, append(bson.D{{Key: command, Value: 1}}, more...))
}

// ask asks any server that answers, the primary if there is one.
func (p *patient) ask(ctx context.Context, db string, into any, command bson.D) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	return p.client.Database(db).RunCommand(ctx, command, options.RunCmd().SetReadPreference(readpref.PrimaryPreferred())).Decode(into)
}

// refused reports whether the server wants a privilege for that.
func refused(err error) bool { return queue.HasCode(err, 13) }

// unseen notes what could not be looked at.
func (p *patient) unseen(check string, err error, privilege string) {
	if refused(err) {
		p.found(check, note, "", "not looked at: this user lacks %s", privilege)
		return
	}
	p.found(check, warn, "ask again", "not looked at: %v", err)
}

// print is for people: what is wrong stands beside what to do.
func (p *patient) print(out io.Writer) error {
	var b strings.Builder
	codes := [...]string{fine: "32", note: "2", warn: "33", fail: "31"}
	color := colorful(out)
	fmt.Fprintf(&b, "database %s, collections %s*\n", safe(p.Database), safe(p.Prefix))
	for _, f := range p.Findings {
		word := fmt.Sprintf("%-4s", f.Level)
		if color {
			word = "\x1b[" + codes[f.Level] + "m" + word + "\x1b[0m"
		}
		fmt.Fprintf(&b, "%s  %-13s  %s\n", word, f.Check, safe(f.What))
		if f.Do != "" {
			fmt.Fprintf(&b, "%21s> %s\n", "", safe(f.Do))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

var errNotAnswered = errors.New("does not answer")
