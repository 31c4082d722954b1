package main

import (
	"context"
	"os"
	"time"

	"github.com/fairlock/fairlock/gateway"
)

// followTokens reads the token file again when it was changed, until ctx ends. While the new one breaks a rule, or is away, the clients of the old one are let
// in, and it is said once for each change.
func (f *serveFlags) followTokens(ctx context.Context, s *gateway.Server, tell func(string, ...any)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last, said := f.tokens, ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := stampOf(f.tokenFile)
		if now == last && said == "" {
			continue
		}
		last = now
		clients, err := f.clients()
		if err == nil {
			err = s.SetClients(clients)
		}
		switch {
		case err == nil:
			said = ""
			tell("%s was read again: %d clients", f.tokenFile, len(clients))
		case said != err.Error():
			said = err.Error()
			tell("%s was changed and is not taken: %v; who was let in before still is", f.tokenFile, err)
		}
	}
}

// fileStamp is what is compared to see that a file was changed: also when another one was moved there, whose time is older.
type fileStamp struct {
	at   time.Time
	size int64
	info string // of a file that cannot be looked at
}

func stampOf(path string) fileStamp {
	info, err := os.Stat(path)
	if err != nil {
		return fileStamp{info: err.Error()}
	}
	return fileStamp{at: info.ModTime(), size: info.Size()}
}
