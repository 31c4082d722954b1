package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes the test binary a worker process.
const childEnv = "FAIRLOCK_DEMO_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := RunWorker(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// workerCommand is this binary as a worker.
func workerCommand() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	return cmd
}
