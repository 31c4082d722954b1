package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/gateway"
)

const serveLong = `serve lets programs take locks over HTTP: PUT /v1/leases/ID takes a place in line and waits for the lock, by a long
poll or a stream of events, heartbeats or an open stream keep it, DELETE gives it back. docs/gateway.md is the guide,
/openapi.yaml the description, and / a page that shows who holds and who waits. /healthz and /readyz are for a balancer,
/metrics is for Prometheus.

It prints its address, alone, on standard output when it is ready, and stays until it gets SIGINT (Ctrl-C), SIGTERM or
SIGHUP. Then it tells every client and hands every lock on, which takes less than two seconds. A client that keeps a
lock by heartbeats alone is told at its next one, and the lock handed on when it says that it has stopped, or when the
time that it was promised is over: its heartbeat time and --ttl at most. A second signal does not wait for that.

The file of --token-file has a client on each line: its name, its token (16 characters or more, sent as "Authorization:
Bearer TOKEN"), and "read" if it may only look at queues. Without it everybody is let in, which is refused where
others than this machine can connect unless --no-auth says that it is meant. The file is read again when it is changed:
a client is known by its name, so its token can be replaced while it holds locks; one that is taken out is shut out.

`

func newServeCmd() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve locks over HTTP, to programs in any language",
		Long:  serveLong + exitTable,
		Example: "  fairlock serve                                              # on loopback, for everybody on this machine\n" +
			"  fairlock serve --listen :8420 --token-file tokens --tls-cert cert.pem --tls-key key.pem\n" +
			"  curl -X PUT -H 'Content-Type: application/json' -d '{\"name\":\"job\"}' http://127.0.0.1:8420/v1/leases/$(uuidgen)",
		Args:                  noArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.check(cmd)
			if err != nil {
				return err
			}
			return serve(cmd, &f, cfg)
		},
	}
	f.define(cmd)
	return cmd
}

// handOverLimit is how long the gateway may take to tell clients with a connection, and to hand their locks on.
const handOverLimit = 2 * time.Second

func serve(cmd *cobra.Command, f *serveFlags, cfg *gateway.Config) error {
	ctx, sig, stop := untilSignal(cmd.Context())
	defer stop()
	tell := func(format string, args ...any) { _, _ = fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }

	// Before MongoDB is looked for, so that an address in use is told at once.
	ln, err := net.Listen("tcp", f.listen)
	if err != nil {
		return exitf(exitUnavailable, "cannot listen: %w", err)
	}
	defer func() { _ = ln.Close() }()
	m, err := sharedOf(cmd).open(ctx, fairlock.Config{TTL: f.ttl, MaxWaiters: f.maxWaiters, Observer: cfg.Metrics.Observer()})
	if err != nil {
		if sig() != 0 {
			return signalled(sig())
		}
		return err
	}
	s, err := gateway.New(m.Manager, cfg)
	if err != nil {
		return errors.Join(usagef(cmd, "%w", err), m.close(ctx))
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	f.warn(tell)
	if f.tokenFile != "" {
		follow, end := context.WithCancel(ctx)
		var following sync.WaitGroup
		following.Go(func() { f.followTokens(follow, s, tell) })
		defer func() {
			end()
			following.Wait()
		}()
	}
	tell("the gateway is ready; its page is at that address. Ctrl-C ends it")
	_, failed := fmt.Fprintln(cmd.OutOrStdout(), f.url(ln.Addr()))
	if failed == nil {
		// Nothing has failed when it ends by a signal: that is how it is meant to end.
		select {
		case <-ctx.Done():
		case failed = <-served:
			served <- nil
		}
	}
	if err := errors.Join(failed, f.shut(ctx, s, m, tell), <-served); err != nil {
		return exitf(exitInternal, "%w", err)
	}
	tell("stopped")
	return nil
}

// shut ends the gateway and then the manager, which gives back what is left.
func (f *serveFlags) shut(ctx context.Context, s *gateway.Server, m *opened, tell func(string, ...any)) error {
	ctx = context.WithoutCancel(ctx)
	within, cancel := context.WithTimeout(ctx, f.ttl+handOverLimit) // nobody is promised more than the lease
	defer cancel()
	late := time.AfterFunc(handOverLimit, func() {
		tell("clients hold locks by heartbeats alone: waiting until they stop or their time is over, at most %v; a second signal does not wait", f.ttl)
	})
	err := s.Close(within)
	late.Stop()
	ctx, cancel = context.WithTimeout(ctx, closeLimit)
	defer cancel()
	return errors.Join(err, m.close(ctx))
}
