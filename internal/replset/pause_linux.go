package replset

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const stopLimit = 10 * time.Second

// awaitStop returns when the whole process has stopped: the kernel reports a stop
// only after the last thread has. WEXITED is not asked for, so this can never
// take the exit status that process.Wait needs. The limit is for a stranger who
// sends SIGCONT before we have looked.
func awaitStop(p *process) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.pid(), &info, unix.WSTOPPED|unix.WNOHANG, nil)
		switch {
		case err == nil && info.Signo == int32(unix.SIGCHLD):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ECHILD):
			return err
		}
		select {
		case <-tick.C:
		case <-p.done:
			return os.ErrProcessDone
		case <-limit.C:
			return errors.New("did not stop")
		}
	}
}
