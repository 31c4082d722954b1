package waiter

import (
	"context"
	"errors"
	"time"
)

var errStarves = errors.New("fairlock: a change stream leaves no connection for anything else (maxPoolSize is too small), polling instead")

// verdict is what a probe found.
type verdict uint8

const (
	unclear verdict = iota
	fits            // a read was answered while the stream waited
	starves         // a read had to wait until the stream let go of its connection
)

// probe finds out whether a read has to wait for the stream, which holds a connection all the time that the server holds an
// empty reply back: in a pool of one the lease could not be renewed beside it. It reads once when the stream's call has been
// waiting for a while, and compares which ends first; a server that is slow does not make a read end right after the
// stream's call, twice. waiting ends when the stream's call has returned; the verdict comes shortly after at the latest.
func (w *Watcher) probe(ctx, waiting context.Context) chan verdict {
	found := make(chan verdict, 1)
	soon := w.cfg.Await / 6
	go func() {
		timer := time.NewTimer(soon)
		defer timer.Stop()
		select {
		case <-waiting.Done():
			found <- unclear
			return
		case <-timer.C:
		}
		began := w.cfg.Clock.Now()
		call, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(waiting, func() { time.AfterFunc(soon, cancel) })()
		_, err := w.cfg.Source.Views(call, []string{""})
		switch {
		case err != nil:
			found <- unclear
		case waiting.Err() == nil:
			found <- fits
		case w.cfg.Clock.Now().Sub(began) > w.cfg.Await/2:
			found <- starves
		default:
			found <- unclear
		}
	}()
	return found
}
