package faults

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// registerModel is one register. A write is accepted if no newer token has been seen; one of unknown outcome has happened or not; a
// read shows what is there.
var registerModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{content{}} },
	Step: func(state, input, output any) []any {
		s, in, out := state.(content), input.(Op), output.(Op)
		switch fits := s.Token <= in.Token; {
		case in.Read && s == (content{out.Token, out.Value}):
			return []any{s}
		case in.Read:
			return nil
		case out.Outcome == Unknown && fits:
			return []any{s, content{in.Token, in.Value}}
		case out.Outcome == Unknown, out.Outcome == Refused && !fits:
			return []any{s}
		case out.Outcome == Accepted && fits:
			return []any{content{in.Token, in.Value}}
		}
		return nil
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(Op), output.(Op)
		if in.Read {
			return fmt.Sprintf("read: %d %s", out.Token, out.Value)
		}
		return fmt.Sprintf("write %d %s: %s", in.Token, in.Value, out.Outcome)
	},
	DescribeState: func(state any) string { return fmt.Sprint(state) },
}

// joinOps makes of each pair of lines one call. A write without an answer is of unknown outcome, for ever; a read without one
// is nothing.
func joinOps(lines []Op) map[string][]porcupine.Operation {
	type key struct {
		proc int
		id   int64
	}
	answers := map[key]Op{}
	for _, l := range lines {
		if l.Outcome != "" {
			answers[key{l.Proc, l.ID}] = l
		}
	}
	byLock := map[string][]porcupine.Operation{}
	for _, l := range lines {
		if l.Outcome != "" {
			continue
		}
		out, ok := answers[key{l.Proc, l.ID}]
		if !ok && l.Read {
			continue
		}
		end := int64(out.Return)
		if !ok || out.Outcome == Unknown {
			out.Outcome = Unknown
			end = math.MaxInt64
		}
		byLock[l.Lock] = append(byLock[l.Lock], porcupine.Operation{
			ClientId: l.Proc, Input: l, Call: int64(l.Call), Output: out, Return: end,
		})
	}
	for lock := range byLock {
		slices.SortFunc(byLock[lock], func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	}
	return byLock
}

// linearLimit bounds the search for one register.
const linearLimit = time.Minute

// CheckRegisters returns the locks whose registers have no order of their calls that the model allows, in the order of their names.
// pictures, if not nil, opens a file for the picture of a lock's calls; each lock that is reported gets one, and so does the
// one with the most calls that were not accepted.
func CheckRegisters(lines []Op, pictures func(lock string) (io.WriteCloser, error)) (bad []string, err error) {
	model := registerModel.ToModel()
	byLock := joinOps(lines)
	names := make([]string, 0, len(byLock))
	for lock := range byLock {
		names = append(names, lock)
	}
	slices.Sort(names)
	odd := func(lock string) (n int) {
		for _, o := range byLock[lock] {
			if out := o.Output.(Op).Outcome; out == Refused || out == Unknown {
				n++
			}
		}
		return n
	}
	shown := ""
	for _, lock := range names {
		if shown == "" || odd(lock) > odd(shown) {
			shown = lock
		}
	}
	for _, lock := range names {
		result, info := porcupine.CheckOperationsVerbose(model, byLock[lock], linearLimit)
		switch result {
		case porcupine.Illegal:
			bad = append(bad, fmt.Sprintf("register %q: its %d calls have no order in which no older token follows a newer one", lock, len(byLock[lock])))
		case porcupine.Unknown:
			bad = append(bad, fmt.Sprintf("register %q: no order of its %d calls was found within %v", lock, len(byLock[lock]), linearLimit))
		case porcupine.Ok:
			if lock != shown {
				continue
			}
		}
		if pictures == nil {
			continue
		}
		w, err := pictures(lock)
		if err != nil {
			return bad, err
		}
		if err := porcupine.Visualize(model, info, w); err != nil {
			return bad, fmt.Errorf("faults: picture of %q: %w", lock, err)
		}
		if err := w.Close(); err != nil {
			return bad, err
		}
	}
	return bad, nil
}
