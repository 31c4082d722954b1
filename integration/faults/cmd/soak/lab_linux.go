package main

import (
	"context"
	"slices"

	"github.com/fairlock/fairlock/integration/faults"
	"github.com/fairlock/fairlock/integration/faults/lab"
	"github.com/fairlock/fairlock/internal/replset"
)

func moreRows() []faults.Row { return lab.Rows() }

// enter goes into a laboratory if one of the rows needs it. The program then begins anew.
func enter(rows []faults.Row) error {
	if !slices.ContainsFunc(lab.Rows(), func(l faults.Row) bool {
		return slices.ContainsFunc(rows, func(r faults.Row) bool { return r.Name == l.Name })
	}) {
		return nil
	}
	return lab.Enter(func(ctx context.Context) error {
		_, err := replset.Find(ctx, nil)
		return err
	})
}
