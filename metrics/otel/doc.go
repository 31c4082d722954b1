// Package fairotel makes OpenTelemetry metrics and spans of what fairlock does. docs/metrics.md has their names, what they mean, and alerts.
//
//	tel, err := fairotel.New(nil)
//	...
//	m, err := fairlock.New(ctx, db, &fairlock.Config{Observer: tel.Observer()})
//
// The metrics are those of the Prometheus collector in module metrics/prometheus, with dots: fairlock.wait in seconds is fairlock_wait_seconds there
// and behind an exporter for Prometheus.
//
// # Spans
//
// Each call that takes a lock is a span fairlock.acquire, and each hold a span fairlock.hold, both children of the span in the
// caller's context. [fairlock.Lock.Context], and the context of [fairlock.Manager.Do], carry the span of the hold, so that what is
// done under the lock is its child. A hold that is lost ends with an error status. Database calls are not spans: the driver's
// command monitor makes those, on a client that belongs to the user.
package fairotel
