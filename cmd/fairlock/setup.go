package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
)

func newSetupCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "setup",
		Short: "Make the collections and indexes",
		Long: "setup makes the collections and indexes that fairlock uses, and prints what it made. It may be repeated. Locks work\n" +
			"without it, but documents that nobody needs any more are then not deleted. It needs the privileges to create collections\n" +
			"and indexes, which fairlock run does not.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sharedOf(cmd).use(fairlock.Config{}, func(ctx context.Context, m *opened) error { return setup(ctx, cmd, m) })
		},
	}
}

func setup(ctx context.Context, cmd *cobra.Command, m *opened) error {
	prefix := sharedOf(cmd).collections()
	before, err := inventory(ctx, m.db, prefix)
	if err != nil {
		return err
	}
	if err := m.Setup(ctx); err != nil {
		return err
	}
	after, err := inventory(ctx, m.db, prefix)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	made := slices.DeleteFunc(after, func(s string) bool { return slices.Contains(before, s) })
	for _, what := range made {
		if _, err := fmt.Fprintln(out, "made", what); err != nil {
			return err
		}
	}
	if len(made) == 0 {
		_, err = fmt.Fprintf(out, "nothing to make: all is there in database %s\n", m.db.Name())
	}
	return err
}

// inventory lists the collections and indexes of fairlock that are there.
func inventory(ctx context.Context, db *mongo.Database, prefix string) ([]string, error) {
	names := bson.A{prefix + "locks", prefix + "tickets", prefix + "sessions"}
	found, err := db.ListCollectionNames(ctx, bson.D{{Key: "name", Value: bson.D{{Key: "$in", Value: names}}}},
		options.ListCollections().SetAuthorizedCollections(true)) // which needs no privilege on the database
	if err != nil {
		return nil, fmt.Errorf("list collections of %s: %w", db.Name(), err)
	}
	slices.Sort(found)
	var all []string
	for _, name := range found {
		all = append(all, "collection "+db.Name()+"."+name)
		indexes, err := db.Collection(name).Indexes().ListSpecifications(ctx)
		if err != nil {
			return nil, fmt.Errorf("list indexes of %s.%s: %w", db.Name(), name, err)
		}
		for _, ix := range indexes {
			if ix.Name == "_id_" {
				continue // comes with the collection
			}
			s := "index " + ix.Name + " on " + db.Name() + "." + name
			if ix.ExpireAfterSeconds != nil {
				s += fmt.Sprintf(", deletes after %d s", *ix.ExpireAfterSeconds)
			}
			all = append(all, s)
		}
	}
	return all, nil
}
