package servers

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

// Ports are handed out from below those that Linux gives to outgoing connections and beside those of internal/replset (20000 and up), so
// that no client takes one between its choice and its use.
const (
	firstPort = 12000
	portCount = 7000
)

var ports = struct {
	sync.Mutex
	next int
}{next: os.Getpid() % (portCount / 100) * 100}

// freePort returns a port of the loopback address on which nobody listens at this moment. Two calls never return the same one, short of
// all having been handed out.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range portCount {
		port := firstPort + ports.next
		ports.next = (ports.next + 1) % portCount
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port in %d–%d", firstPort, firstPort+portCount-1)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
