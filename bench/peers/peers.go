// Package peers measures fairlock beside other lock libraries: which there are (package lockers, package java), and the servers they need
// (package servers).
//
// Most are kinds of the harness's own binary; those in Java, and square/mongo-lock, are programs of their own, built by [Prepare].
//
// Each is set up as its user gets it, with endless waiting, and each contender is a process with a client of its own. None of them was
// changed. What they promise differs, and the tables show only what they do; see the doc of package servers for what a
// crash can take from which.
package peers

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/bench/contend"
	"github.com/fairlock/fairlock/bench/peers/java"
	"github.com/fairlock/fairlock/bench/peers/lockers"
	"github.com/fairlock/fairlock/bench/peers/servers"
	"github.com/fairlock/fairlock/bench/run"
)

// Kinds are those that a binary must be able to be to run [All]: it calls [contend.Main] with them.
func Kinds() []contend.Kind { return lockers.All() }

// All returns every peer, in the order of the tables.
func All() []run.Contestant {
	var all []run.Contestant
	for _, k := range lockers.All() {
		all = append(all, run.Contestant{Kind: k.Name, Server: k.Server})
	}
	for _, k := range java.Kinds {
		all = append(all, run.Contestant{Kind: k.Name, Server: k.Server, Command: java.Command})
	}
	return append(all, square)
}

// Prepare builds the program of a contestant that is not this binary, if it has not been built yet: a build within the start of a
// contender would count as its connecting. What cannot be had is a *fetch.MissingError.
func Prepare(ctx context.Context, c run.Contestant) (err error) {
	switch {
	case c.Kind == square.Kind:
		_, err = squareBinary()
	case isJava(c.Kind):
		_, err = java.ClassPath(ctx)
	}
	return err
}

// MaxContenders is the largest size at which a kind can be measured on one small machine, 0 if nothing bounds it. A JVM for each
// contender is too much beyond [java.MaxContenders].
func MaxContenders(kind string) int {
	if isJava(kind) {
		return java.MaxContenders
	}
	return 0
}

func isJava(kind string) bool {
	for _, k := range java.Kinds {
		if k.Name == kind {
			return true
		}
	}
	return false
}

// ExtraWarm is what a kind's warm-up needs beyond run.WarmFor: a JVM compiles what it runs often, and the harness is to see what remains
// when it has.
func ExtraWarm(kind string) time.Duration {
	if isJava(kind) {
		return 6 * time.Second
	}
	return 0
}

// Start starts the server of that name: "mongo", "redis", "etcd", "postgres" or "zookeeper". What is missing on this machine is fetched or
// built first; if that cannot be done, the error is a *fetch.MissingError, which tells what to install.
func Start(ctx context.Context, server string) (run.Server, error) {
	if server != "mongo" {
		return servers.Start(ctx, server)
	}
	s, err := run.StartMongo(ctx)
	if err != nil {
		return nil, err // and not a nil pointer in the interface
	}
	return s, nil
}
