package replset

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

// Ports are handed out from below the ranges that Linux (32768…) and macOS
// (49152…) give to outgoing connections. A port of those ranges may be taken by
// any client in the moment when a member is down, and Restart needs the same one
// again.
const (
	firstPort = 20000
	portCount = 12000
	portBlock = 100
)

// ports hands out ports, unique in this process until they are given back. Two
// test processes begin in different blocks, so that one does not pick the port of
// a member that the other has just killed. That is likely, not certain; certainty
// comes from launch, which sees a lost port in mongod's exit status.
var ports = portPool{
	next:  os.Getpid() % (portCount / portBlock) * portBlock,
	taken: map[int]bool{},
}

type portPool struct {
	mu    sync.Mutex // guards the rest
	next  int
	taken map[int]bool
}

// pick returns a port on which nobody listens at this moment.
func (p *portPool) pick() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range portCount {
		port := firstPort + p.next
		p.next = (p.next + 1) % portCount
		// 27000 and up is where people run their own servers.
		if p.taken[port] || port/100 == 270 {
			continue
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		_ = l.Close()
		p.taken[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("replset: no free port in %d–%d", firstPort, firstPort+portCount-1)
}

func (p *portPool) giveBack(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, port)
}

const loopbackHost = "127.0.0.1"

func loopback(port int) string { return net.JoinHostPort(loopbackHost, strconv.Itoa(port)) }
