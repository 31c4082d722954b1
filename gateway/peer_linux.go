package gateway

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of tcp(7), which package syscall lacks: for how many milliseconds sent data may stay without acknowledgement before
// the connection breaks with ETIMEDOUT.
const tcpUserTimeout = 18

// kernelLate is by how much later than that it does so: it looks at its retransmissions, of which the first two take that long at the least.
// 420 to 470 ms were measured on a loopback (6.18) with limits from 250 ms to 5 s.
const kernelLate = 600 * time.Millisecond

func setUserTimeout(c *net.TCPConn, d time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(max(d-kernelLate, 100*time.Millisecond).Milliseconds())) // cannot fail for an open socket
	})
}
