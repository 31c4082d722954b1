package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// ending is the signals that ask a process to end.
var ending = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}

// notify delivers the signals that were not ignored when fairlock was started: whoever used nohup, or a shell's
// background without job control, means it. The channel holds a few, for a signal that finds it full is dropped.
func notify(signals ...os.Signal) (c chan os.Signal, stop func()) {
	c = make(chan os.Signal, 16)
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	return c, func() { signal.Stop(c) }
}

// untilSignal returns a context that ends with the first ending signal. sig tells which one it was, 0 if none. A second
// one ends the process as if it were not caught.
func untilSignal(ctx context.Context) (_ context.Context, sig func() syscall.Signal, stop func()) {
	c, unsubscribe := notify(ending...)
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-c:
			unsubscribe()
			cancel(&signalError{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	sig = func() syscall.Signal {
		if e, ok := context.Cause(ctx).(*signalError); ok {
			return e.sig
		}
		return 0
	}
	return ctx, sig, func() {
		unsubscribe()
		cancel(nil)
		<-done
	}
}

// signalError is the cause of a context that a signal has ended.
type signalError struct{ sig syscall.Signal }

func (e *signalError) Error() string { return "signal: " + e.sig.String() }

// interruptible runs f, and makes a signal during it the command's exit code.
func interruptible(ctx context.Context, f func(context.Context) error) error {
	ctx, sig, stop := untilSignal(ctx)
	defer stop()
	err := f(ctx)
	if s := sig(); s != 0 && err != nil {
		return signalled(s)
	}
	return err
}
