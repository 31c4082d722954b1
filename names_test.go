package fairlock

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memstore"
)

// kept counts all entries of maps, slices and channels that a value of this module's reaches through such values, and
// so everything that could grow with the names that a manager has seen. What it cannot count is the work of other modules.
func kept(v any) int {
	seen := map[any]bool{}
	var walk func(reflect.Value) int
	walk = func(v reflect.Value) int {
		n := 0
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() || seen[v.Pointer()] || !ours(v.Type().Elem()) {
				return 0
			}
			seen[v.Pointer()] = true
			return walk(v.Elem())
		case reflect.Interface:
			if v.IsNil() {
				return 0
			}
			return walk(v.Elem())
		case reflect.Struct:
			if v.Type().PkgPath() != "" && !ours(v.Type()) {
				return 0
			}
			for i := range v.NumField() {
				n += walk(v.Field(i))
			}
		case reflect.Map:
			n = v.Len()
			for it := v.MapRange(); it.Next(); {
				n += walk(it.Value())
			}
		case reflect.Slice:
			n = v.Cap()
			for i := range v.Len() {
				n += walk(v.Index(i))
			}
		case reflect.Chan:
			n = v.Len()
		}
		return n
	}
	return walk(reflect.ValueOf(v))
}

// ours leaves out the database, which a manager reaches and does not own.
func ours(t reflect.Type) bool {
	return strings.HasPrefix(t.PkgPath(), "github.com/fairlock/fairlock") && !strings.HasSuffix(t.PkgPath(), "/memstore")
}

// heap is what the process keeps. The second collection empties what sync.Pools had kept over the first.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// names are those of the lines that users have. The right to sweep is the manager's own.
func (p *proc) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for name := range p.lines {
		if name != sweepName {
			all = append(all, name)
		}
	}
	return all
}

// manyNames are the names that one of the tests below goes through, and how many locks of them are held at one time.
type manyNames struct {
	b        *bed
	of       string
	n, batch int
}

// each calls use with the names of each batch, and drops the documents, which are the server's and not the manager's.
func (s manyNames) each(use func(i int, batch []string)) {
	for i := range s.n / s.batch {
		var batch []string
		for j := range s.batch {
			batch = append(batch, fmt.Sprintf("%s %d", s.of, i*s.batch+j))
		}
		use(i, batch)
		for _, name := range batch {
			s.b.srv.DropLock(name)
		}
	}
}

// alone is bubble for a test whose heap is measured: no other test runs at the same time, since those that do not call
// t.Parallel come before those that do.
func alone(t *testing.T, f func(*bed)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, ctx: t.Context(), srv: memstore.New(time.Now)}
		defer b.end()
		f(b)
	})
}

const (
	// perName, in bytes, is less than anything that is kept of a name: a key of a map is 16, and the name itself as many.
	perName = 16
	// fewEntries is what a manager keeps of itself, of its right to sweep, and of one lock.
	fewEntries = 100
)

// enough is n, or a part of it under the race detector, where all is some eight times slower.
func enough(n int) int {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return n / 5
	}
	return n
}

// TestNothingIsKeptOfNames locks many names once each. A process keeps nothing of them.
func TestNothingIsKeptOfNames(t *testing.T) {
	alone(t, func(b *bed) {
		p := b.proc()
		held := make([]*Lock, 0, 1000)
		run := func(s manyNames) {
			s.each(func(i int, batch []string) {
				for _, name := range batch {
					l, err := p.Lock(b.ctx, name)
					require.NoError(b.t, err)
					held = append(held, l)
				}
				require.Equal(b.t, len(batch), len(p.names()))
				time.Sleep(p.cfg.TicketDelay / 2)
				if i%10 == 0 { // so that they get tickets
					time.Sleep(p.cfg.TicketDelay)
					synctest.Wait()
					require.GreaterOrEqual(b.t, len(b.srv.Tickets()), len(batch))
				}
				for _, l := range held {
					require.NoError(b.t, l.Unlock(b.ctx))
				}
				clear(held)
				held = held[:0]
			})
			time.Sleep(time.Minute) // all that was to come later has come, sweeps and looks too
			synctest.Wait()
		}
		// The same beforehand, for what comes with the first names and stays: maps have the size that a batch needs.
		run(manyNames{b, "warm", 10_000, cap(held)})
		before := heap()
		n := enough(200_000)
		run(manyNames{b, "name", n, cap(held)})
		grown := heap() - before
		require.Empty(b.t, p.names())
		require.Empty(b.t, p.tickets.young)
		entries := kept(p.Manager)
		b.t.Logf("heap grew by %d bytes for %d names; %d entries kept", grown, n, entries)
		require.Less(b.t, entries, fewEntries)
		require.Less(b.t, grown, int64(n)*perName)
		runtime.KeepAlive(p)
	})
}

// TestNothingIsKeptOfNamesWaitedFor lets a process wait once for each of many names, while it goes on waiting for another, so that
// its watcher never comes to rest. Once the time has passed for which it keeps the pace of a lock, it keeps nothing.
func TestNothingIsKeptOfNamesWaitedFor(t *testing.T) {
	alone(t, func(b *bed) {
		p, q := b.proc(), b.proc()
		busy := p.lock("busy")
		waits := q.begin("busy")
		held := make([]*Lock, 0, 500)
		run := func(s manyNames) {
			s.each(func(i int, batch []string) {
				for _, name := range batch {
					l, err := p.Lock(b.ctx, name)
					require.NoError(b.t, err)
					held = append(held, l)
				}
				var wg sync.WaitGroup
				for _, name := range batch {
					wg.Go(func() {
						if err := q.Do(b.ctx, name, func(context.Context) error { return nil }); err != nil {
							b.t.Error(err)
						}
					})
				}
				synctest.Wait()
				require.Equal(b.t, len(batch)+1, len(q.names()))
				for _, l := range held {
					require.NoError(b.t, l.Unlock(b.ctx))
				}
				wg.Wait()
				clear(held)
				held = held[:0]
				time.Sleep(time.Second) // what is kept for a time is kept of the names of that time
			})
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		run(manyNames{b, "warm", 10_000, cap(held)})
		before := heap()
		n := enough(100_000)
		run(manyNames{b, "name", n, cap(held)})
		grown := heap() - before
		require.False(b.t, waits.over())
		require.Equal(b.t, []string{"busy"}, q.names())
		entries := kept(q.Manager)
		s := q.Stats()
		b.t.Logf("heap grew by %d bytes for %d names; %d entries kept; %d grants by events, %d by reads", grown, n, entries,
			s.GrantsByEvent, s.GrantsByOpening+s.GrantsByDoze)
		require.Greater(b.t, s.GrantsByEvent+s.GrantsByOpening+s.GrantsByDoze, int64(n), "names that were waited for")
		require.Less(b.t, entries, fewEntries)
		require.Less(b.t, grown, int64(n)*perName)
		b.unlock(busy)
		b.unlock(waits.granted())
	})
}
