package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock"
	"github.com/fairlock/fairlock/bench/contend"
	product "github.com/fairlock/fairlock/gateway"
)

// Subcommand is the first argument by which a binary of the harness becomes a gateway: it then calls [Main] with the rest.
const Subcommand = "gateway"

const closeLimit = time.Minute

// Main is a gateway process. Its argument is the address of MongoDB. It prints its own, and ends when its input does. It returns the exit status.
func Main(args []string) int {
	signal.Ignore(os.Interrupt) // the harness says when to end
	if len(args) != 1 {
		fmt.Fprintf(os.Stderr, "bench: gateway has %d arguments, needs an address\n", len(args))
		return 2
	}
	if err := serve(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "bench: gateway:", err)
		return 1
	}
	return 0
}

func serve(target string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(target).SetAppName("bench"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.Background())) }()
	m, err := fairlock.New(ctx, client.Database(contend.Database), nil)
	if err != nil {
		return err
	}
	s, err := product.New(m, &product.Config{Anonymous: true})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	fmt.Println("http://" + ln.Addr().String())
	_, _ = io.Copy(io.Discard, os.Stdin)
	end, stop := context.WithTimeout(context.Background(), closeLimit)
	defer stop()
	return errors.Join(s.Close(end), m.Close(end), <-served)
}

// process is a gateway as the harness sees it.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr strings.Builder
	url    string
}

// startProcess starts one and waits until it serves.
func startProcess(target string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, Subcommand, target)}
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// It ends when this pipe does, so it cannot outlive the harness.
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := fmt.Fscanln(stdout, &p.url); err != nil {
		return nil, errors.Join(fmt.Errorf("gateway: no address: %w", err), p.end())
	}
	return p, nil
}

// end lets it hand everything on.
func (p *process) end() error {
	_ = p.stdin.Close()
	t := time.AfterFunc(closeLimit, func() { _ = p.cmd.Process.Kill() })
	defer t.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("gateway: %w %s", err, p.stderr.String())
	}
	return nil
}

// cpu is its user and system time, in the kernel's ticks of 10 ms.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("gateway: /proc has %q", stat)
	}
	var user, system int64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	return time.Duration(user+system) * 10 * time.Millisecond, err
}

// resident is its memory in bytes.
func (p *process) resident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), "VmRSS:")
	var kb int64
	if _, err := fmt.Sscan(rest, &kb); err != nil || !found {
		return 0, errors.New("gateway: /proc has no VmRSS")
	}
	return kb << 10, nil
}
