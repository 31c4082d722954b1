package fairprom_test

import (
	"context"
	"log"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock"
	fairprom "github.com/fairlock/fairlock/metrics/prometheus"
)

func Example() {
	ctx := context.Background()
	var db *mongo.Database // client.Database("app")
	metrics := fairprom.New(nil)
	prometheus.MustRegister(metrics)
	m, err := fairlock.New(ctx, db, &fairlock.Config{Observer: metrics.Observer()})
	if err != nil {
		log.Fatal(err)
	}
	prometheus.MustRegister(fairprom.NewQueues(m, nil))
}
