package faults

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock/internal/history"
	"github.com/fairlock/fairlock/internal/replset"
)

const (
	crewUser = "crew"
	crewRole = "fairlockCrew"
)

// roleRevoked takes the role away from the crew's user, past the lease, and gives it back. Callers get errors that say so, holders
// are told by the end of their lease, and all goes on afterwards.
func roleRevoked() Row {
	crew := usual(shortTTL)
	crew.URI = func(r *Run, _ int) string { return r.Set.URIFor(crewUser, crewUser, "admin") }
	crew.RegisterURI = func(r *Run, _ int) string { return r.Deployment.URI() }
	return Row{
		Name:    "role-revoked",
		About:   "on servers with authentication, the user's role is revoked past the lease and granted again",
		Gate:    60,
		WhyGate: "all traffic is encrypted on the two cores of clients and servers",
		Set:     replset.Options{Secure: true},
		Crew:    crew,
		Bound:   shortTTL + afterDeath,
		Leaves:  "sessions that lapsed while nothing could be written",
		Before: func(ctx context.Context, r *Run) error {
			admin := r.DB.Client().Database("admin")
			// Another run may have left both; the role is of this run's database.
			_ = admin.RunCommand(ctx, bson.D{{Key: "dropUser", Value: crewUser}}).Err()
			_ = admin.RunCommand(ctx, bson.D{{Key: "dropRole", Value: crewRole}}).Err()
			var privileges bson.A
			for _, coll := range []string{"locks", "tickets", "sessions"} {
				privileges = append(privileges, bson.D{
					{Key: "resource", Value: bson.D{{Key: "db", Value: r.DB.Name()}, {Key: "collection", Value: prefix + coll}}},
					{Key: "actions", Value: bson.A{"find", "insert", "update", "remove", "changeStream"}},
				})
			}
			return errors.Join(
				admin.RunCommand(ctx, bson.D{{Key: "createRole", Value: crewRole}, {Key: "privileges", Value: privileges}, {Key: "roles", Value: bson.A{}}}).Err(),
				admin.RunCommand(ctx, bson.D{{Key: "createUser", Value: crewUser}, {Key: "pwd", Value: crewUser}, {Key: "roles", Value: bson.A{crewRole}}}).Err(),
			)
		},
		Fault: func(ctx context.Context, r *Run) error {
			admin := r.DB.Client().Database("admin")
			change := func(op string) error {
				return admin.RunCommand(ctx, bson.D{{Key: op, Value: crewUser}, {Key: "roles", Value: bson.A{crewRole}}}).Err()
			}
			return r.Rounds(ctx, time.Second, 2*time.Second, func(i int) error {
				procs := r.Crew.Pick(2)
				if err := r.held(ctx, extraLock(i), procs); err != nil {
					return err
				}
				r.Harm()
				if err := change("revokeRolesFromUser"); err != nil {
					return err
				}
				revoked := r.Now()
				told, err := procs[0].Told(ctx, extraLock(i))
				if err != nil {
					return err
				}
				if told > revoked.Add(r.ttl()) {
					r.Violate("a holder is told by the end of its lease: it was told %v after its role was revoked, the lease is %v", told.Sub(revoked), r.ttl())
				}
				if err := r.Sleep(ctx, r.Between(100*time.Millisecond, time.Second)); err != nil {
					return err
				}
				if err := change("grantRolesToUser"); err != nil {
					return err
				}
				r.markAll("a revoked role", Sent)
				if err := r.Recovered(ctx); err != nil {
					return err
				}
				return procs[0].Resume(ctx, extraLock(i))
			})
		},
		Expect: func(r *Run) []string {
			for _, e := range r.Events() {
				if e.Kind == history.Failed && (strings.Contains(e.Err, "not authorized") || strings.Contains(e.Err, "privilege")) {
					return nil
				}
			}
			return []string{"a caller is told that it lacks a privilege: none was"}
		},
	}
}
