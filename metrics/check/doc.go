// Package check tests what belongs to the metrics and is no code: that each panel of metrics/dashboard.json and each rule of metrics/alerts.yml is valid
// and asks for metrics and labels that the collectors have, that the alerts fire when they should, that docs/metrics.md names all metrics,
// that the two adapters have the same ones, and that under load each panel shows something, which it can draw. It also measures what they cost. It is a module of its own since it uses Prometheus itself.
package check
