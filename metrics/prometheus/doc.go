// Package fairprom makes Prometheus metrics of what fairlock does. docs/metrics.md has their names, what they mean, and alerts.
//
//	metrics := fairprom.New(nil)
//	prometheus.MustRegister(metrics)
//	m, err := fairlock.New(ctx, db, &fairlock.Config{Observer: metrics.Observer()})
//
// [Collector] is about this process and makes no database call. [Queues] is about the queues of all processes, which only the database
// knows, and reads it at each scrape: one process of a fleet is enough for it.
//
// Neither has names of locks as labels unless it is told to: a program can have a million of them, and each would be a time series.
package fairprom
