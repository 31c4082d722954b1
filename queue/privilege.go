package queue

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// ErrPrivilege: the database's user lacks a privilege that fairlock needs. Errors that match it are of type [*PrivilegeError].
var ErrPrivilege = errors.New("fairlock: privilege missing")

// PrivilegeError names what the user may not do and where. docs/security.md has the role that grants all of it.
type PrivilegeError struct {
	Namespace string   // database.collection
	Missing   []string // actions, as MongoDB names them
	cause     error
}

func (e *PrivilegeError) Error() string {
	s := "fairlock: needs the privilege "
	if len(e.Missing) > 1 {
		s = "fairlock: needs the privileges "
	}
	return s + strings.Join(e.Missing, ", ") + " on " + e.Namespace + " (not authorized)"
}

// Is makes errors.Is(err, ErrPrivilege) true.
func (e *PrivilegeError) Is(target error) bool { return target == ErrPrivilege }

// Unwrap is the server's refusal. Its own text quotes the command with all its values, and so is not part of this error's.
func (e *PrivilegeError) Unwrap() error { return e.cause }

const unauthorized = 13

// Explain makes a [*PrivilegeError] of a refusal by a server that wants privileges; every other error it returns as it is. need is
// all that the call needs on coll. The refusal does not say which of it is missing, so the server is asked what the user has;
// that needs no privilege. Where it does not answer, or has been given a new role meanwhile, all of need is named.
func Explain(ctx context.Context, coll *mongo.Collection, err error, need ...string) error {
	if err == nil || !HasCode(err, unauthorized) || errors.Is(err, ErrPrivilege) {
		return err
	}
	e := &PrivilegeError{Namespace: coll.Database().Name() + "." + coll.Name(), Missing: need, cause: err}
	have, known := privileges(ctx, coll)
	if lacks := slices.DeleteFunc(slices.Clone(need), func(a string) bool { return have[a] }); known && len(lacks) > 0 {
		e.Missing = lacks
	}
	return e
}

// privileges is what the client's user may do with coll.
func privileges(ctx context.Context, coll *mongo.Collection) (have map[string]bool, known bool) {
	var status struct {
		Auth struct {
			Privileges []struct {
				Resource struct {
					DB         *string `bson:"db"`
					Collection *string `bson:"collection"`
					Any        bool    `bson:"anyResource"`
				} `bson:"resource"`
				Actions []string `bson:"actions"`
			} `bson:"authenticatedUserPrivileges"`
		} `bson:"authInfo"`
	}
	err := coll.Database().Client().Database("admin").RunCommand(ctx, bson.D{
		{Key: "connectionStatus", Value: 1}, {Key: "showPrivileges", Value: true},
	}).Decode(&status)
	if err != nil {
		return nil, false
	}
	have = map[string]bool{}
	covers := func(pattern *string, name string) bool { return pattern != nil && (*pattern == "" || *pattern == name) }
	for _, p := range status.Auth.Privileges {
		r := p.Resource
		if r.Any || covers(r.DB, coll.Database().Name()) && covers(r.Collection, coll.Name()) {
			for _, a := range p.Actions {
				have[a] = true
			}
		}
	}
	return have, true
}
