// Package leastrole runs the commands of docs/security.md as they are written there, so that what users are told is what is tested.
//
// In the page a command is mongosh's db.getSiblingDB("name").runCommand({...}) whose argument is JSON.
package leastrole

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Names and passwords of the users that the page makes, all in Database. User may use locks and User alone; Setup may make
// collections and indexes, and not use locks.
const (
	Database      = "app"
	User          = "fairlock"
	SetupUser     = "fairlockSetup"
	Role          = "fairlock"
	SetupRole     = "fairlockSetup"
	Password      = "change me"
	SetupPassword = "change me too"
)

// Command is one command of the page.
type Command struct {
	Database string
	Doc      bson.D
}

// Name is the command's: createRole or createUser.
func (c Command) Name() string { return c.Doc[0].Key }

// Of is what it makes.
func (c Command) Of() string { return fmt.Sprint(c.Doc[0].Value) }

var command = regexp.MustCompile(`(?s)db\.getSiblingDB\("([^"]+)"\)\.runCommand\((\{.*?\n\})\)`)

// Read returns the commands of the page at path, in order.
func Read(path string) ([]Command, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Command
	for _, m := range command.FindAllStringSubmatch(string(page), -1) {
		c := Command{Database: m[1]}
		if err := bson.UnmarshalExtJSON([]byte(m[2]), false, &c.Doc); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, m[2], err)
		}
		all = append(all, c)
	}
	if n := strings.Count(string(page), ".runCommand("); n != len(all) {
		return nil, fmt.Errorf("%s: %d commands, of which only %d are understood", path, n, len(all))
	}
	return all, nil
}

// Apply runs all commands of the page at path. admin may make roles and users.
func Apply(ctx context.Context, admin *mongo.Client, path string) error {
	all, err := Read(path)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := admin.Database(c.Database).RunCommand(ctx, c.Doc).Err(); err != nil {
			return fmt.Errorf("%s %s: %w", c.Name(), c.Of(), err)
		}
	}
	return nil
}
