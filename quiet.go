package fairlock

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// quiet is a log in which the same failure is told once a minute, and then how often it has come: what is refused is tried again,
// many times a second maybe, and must not fill a log.
type quiet struct {
	slog.Handler
	told *told
}

// told is what was logged lately. It is shared by all handlers made of one.
type told struct {
	mu   sync.Mutex // guards all below
	last map[string]*failure
}

type failure struct {
	at   time.Time
	more int // times since
}

const (
	quietFor   = time.Minute
	mostQuiet  = 1000 // failures that are remembered
	repeatsKey = "repeated"
)

func newQuiet(h slog.Handler) quiet { return quiet{h, &told{last: map[string]*failure{}}} }

// Handle implements [slog.Handler].
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return q.Handler.Handle(ctx, r)
	}
	key, failed := r.Message, false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "error":
			failed = true
			fallthrough
		case "lock", "session":
			key += "\n" + a.Value.String()
		}
		return true
	})
	if !failed {
		return q.Handler.Handle(ctx, r)
	}
	more, silent := q.told.again(key, r.Time)
	if silent {
		return nil
	}
	if more > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int(repeatsKey, more))
	}
	return q.Handler.Handle(ctx, r)
}

// again notes a failure at now. silent is true when it was told less than quietFor ago; otherwise more is how often it came since.
func (t *told) again(key string, now time.Time) (more int, silent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.last[key]
	if f != nil && now.Sub(f.at) < quietFor {
		f.more++
		return 0, true
	}
	if f != nil {
		more = f.more
	} else if len(t.last) >= mostQuiet {
		clear(t.last)
	}
	t.last[key] = &failure{at: now}
	return more, false
}

// WithAttrs implements [slog.Handler].
func (q quiet) WithAttrs(a []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(a), q.told} }

// WithGroup implements [slog.Handler].
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name), q.told} }
