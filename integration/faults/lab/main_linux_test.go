package lab_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/integration/faults"
	"github.com/fairlock/fairlock/integration/faults/lab"
	"github.com/fairlock/fairlock/internal/guard"
	"github.com/fairlock/fairlock/internal/replset"
)

// envChild makes this test binary a child of a test; its value is a key of children.
const envChild = "LAB_TEST_CHILD"

var children = map[string]func() error{"owner": owner, "clock": tellTime, "sync": syncOften}

func TestMain(m *testing.M) {
	faults.WorkerMain()
	child := children[os.Getenv(envChild)]
	prepare := func(ctx context.Context) error {
		if child != nil {
			return nil
		}
		if _, err := replset.Find(ctx, nil); err != nil {
			return err
		}
		return buildCLI(ctx, os.DevNull) // so that its modules are here
	}
	if err := lab.Enter(prepare); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if child != nil {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const limit = 30 * time.Second

// process is a child of a test that answers lines with lines. It ends with the test.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startChild(t *testing.T, kind string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), envChild+"="+kind), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{t: t, cmd: cmd, in: in, out: json.NewDecoder(bufio.NewReader(out))}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return p
}

func (p *process) ask(answer any) {
	p.t.Helper()
	_, err := io.WriteString(p.in, "\n")
	require.NoError(p.t, err)
	require.NoError(p.t, p.out.Decode(answer))
}

// property is what an owner made.
type property struct {
	Sleeper  int
	Networks []string // inodes: its own, and its host's
	Disk     string
}

// owner makes one of everything and lives until it is killed.
func owner() error {
	g, err := guard.Start()
	if err != nil {
		return err
	}
	n, err := lab.NewNetwork(1)
	if err != nil {
		return err
	}
	if _, err := n.Join(); err != nil {
		return err
	}
	h, err := n.Add()
	if err != nil {
		return err
	}
	sleeper := exec.Command("sleep", "1000")
	sleeper.SysProcAttr = g.Attr()
	if err := h.Start(sleeper); err != nil {
		return err
	}
	d, err := lab.NewDisk(1 << 20)
	if err != nil {
		return err
	}
	p := property{Sleeper: sleeper.Process.Pid, Disk: d.Path()}
	for _, pid := range []int{os.Getpid(), sleeper.Process.Pid} {
		ns, err := netOf(pid)
		if err != nil {
			return err
		}
		p.Networks = append(p.Networks, ns)
	}
	if err := json.NewEncoder(os.Stdout).Encode(p); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func netOf(pid int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)) }
