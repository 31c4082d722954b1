package fair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// answerLimit bounds the wait for one report.
const answerLimit = 2 * time.Minute

// workerEnv keeps the runtime from choosing larger stacks for new goroutines by what earlier ones needed: then the 10,000 of one measurement
// would pay for those of another. Stacks still grow, and are halved by the collector.
const workerEnv = "GODEBUG=adaptivestackstart=0"

// remote is a worker as the harness sees it. It belongs to one goroutine.
type remote struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	orders  *json.Encoder
	reports chan report // read ends it; room for what a worker says while nobody asks
	stderr  strings.Builder
}

// startWorker starts one and waits until it has connected.
func startWorker(ctx context.Context, target, lock string, permits int64) (*remote, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &remote{cmd: exec.Command(self, Subcommand, target, lock, strconv.FormatInt(permits, 10)), reports: make(chan report, 64)}
	r.cmd.Stderr = &r.stderr
	r.cmd.Env = append(os.Environ(), workerEnv)
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// The worker ends when this pipe does, so it cannot outlive the harness.
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	r.orders = json.NewEncoder(r.stdin)
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(r.reports)
		dec := json.NewDecoder(stdout)
		for {
			var rep report
			if dec.Decode(&rep) != nil {
				return
			}
			r.reports <- rep
		}
	}()
	if _, err := r.await(ctx, "ready"); err != nil {
		return nil, errors.Join(err, r.kill())
	}
	return r, nil
}

func (r *remote) tell(o order) error { return r.orders.Encode(o) }

// await returns the next report of a kind; others before it are dropped.
func (r *remote) await(ctx context.Context, op string) (report, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for {
		select {
		case rep, ok := <-r.reports:
			switch {
			case !ok:
				return rep, fmt.Errorf("fair: worker ended before %q", op)
			case rep.Err != "":
				return rep, fmt.Errorf("fair: worker: %s: %s", rep.Op, rep.Err)
			case rep.Op == op:
				return rep, nil
			}
		case <-ctx.Done():
			return report{}, fmt.Errorf("fair: awaiting %q: %w", op, ctx.Err())
		}
	}
}

// ask is tell and await.
func (r *remote) ask(ctx context.Context, o order) (report, error) {
	if err := r.tell(o); err != nil {
		return report{}, err
	}
	return r.await(ctx, o.Op)
}

// end lets the worker give everything back.
func (r *remote) end() error {
	_ = r.tell(order{Op: "bye"}) // if it is gone, exit says why
	_ = r.stdin.Close()
	t := time.AfterFunc(answerLimit, func() { _ = r.cmd.Process.Kill() })
	defer t.Stop()
	for range r.reports {
	}
	return r.exit()
}

func (r *remote) kill() error {
	_ = r.cmd.Process.Kill()
	_ = r.stdin.Close()
	for range r.reports {
	}
	return r.exit()
}

func (r *remote) exit() error {
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("fair: worker: %w %s", err, r.stderr.String())
	}
	return nil
}
