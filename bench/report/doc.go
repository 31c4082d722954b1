// Package report writes what was measured: JSON for machines, Markdown and SVG for people.
package report
