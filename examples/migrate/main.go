// Command migrate is a service that brings its database's schema up to date when it starts. However many are started at one time, each step
// runs once: the first in line takes them, those behind wait, and find nothing to do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
)

// schema is what version the database has.
type schema interface {
	Version(ctx context.Context) (int, error)
	SetVersion(ctx context.Context, v int) error
}

// step is one migration. A step may run again after a crash in its middle, so it must bear that.
type step func(context.Context) error

// migrate does the steps that are missing.
func migrate(ctx context.Context, m *fairlock.Manager, s schema, steps []step) error {
	return m.Do(ctx, "migrate", func(ctx context.Context) error {
		v, err := s.Version(ctx)
		if err != nil {
			return err
		}
		for ; v < len(steps); v++ {
			if err := steps[v](ctx); err != nil {
				return fmt.Errorf("step %d: %w", v+1, err)
			}
			if err := s.SetVersion(ctx, v+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// document is a schema's version in MongoDB.
type document struct{ *mongo.Collection }

var only = bson.D{{Key: "_id", Value: "schema"}}

func (d document) Version(ctx context.Context) (int, error) {
	var doc struct{ Version int }
	err := d.FindOne(ctx, only).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = nil
	}
	return doc.Version, err
}

func (d document) SetVersion(ctx context.Context, v int) error {
	_, err := d.UpdateOne(ctx, only, bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: v}}}}, options.UpdateOne().SetUpsert(true))
	return err
}

func main() {
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("arguments are %q: must be none", flag.Args())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("FAIRLOCK_URI")))
	if err != nil {
		log.Fatal("FAIRLOCK_URI: ", err)
	}
	db := client.Database("fairlock_migrate")
	m, err := fairlock.New(ctx, db, nil)
	if err != nil {
		log.Fatal(err)
	}
	users := db.Collection("users")
	err = migrate(ctx, m, document{db.Collection("meta")}, []step{
		func(ctx context.Context) error {
			_, err := users.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "email", Value: 1}}})
			return err
		},
		func(ctx context.Context) error {
			_, err := users.UpdateMany(ctx, bson.D{{Key: "active", Value: nil}}, bson.D{{Key: "$set", Value: bson.D{{Key: "active", Value: true}}}})
			return err
		},
	})
	if err == nil {
		fmt.Println("schema is up to date")
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := errors.Join(err, m.Close(end), client.Disconnect(end)); err != nil {
		log.Fatal(err)
	}
}
