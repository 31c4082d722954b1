package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/fairlock/fairlock"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	ctx := context.Background()
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("FAIRLOCK_URI")))
	if err != nil {
		log.Fatal("FAIRLOCK_URI: ", err)
	}
	m, err := fairlock.New(ctx, client.Database("fairlock_quickstart"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close(ctx)
	lock, err := m.Lock(ctx, "invoices") // waits in line
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held with token", lock.Token(), "- lost?", lock.Err() != nil)
	fmt.Println("given back:", lock.Unlock(ctx) == nil)
}
