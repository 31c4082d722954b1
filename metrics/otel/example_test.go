package fairotel_test

import (
	"context"
	"log"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock"
	fairotel "github.com/fairlock/fairlock/metrics/otel"
)

func Example() {
	ctx := context.Background()
	var db *mongo.Database // client.Database("app")
	tel, err := fairotel.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	m, err := fairlock.New(ctx, db, &fairlock.Config{Observer: tel.Observer()})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close(ctx)
}
