package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxHosts = 250

	// backlog is how many packets a link with a delay holds; more are lost. A window of TCP fits.
	backlog = 4096
)

// network is 10.77.0.0/24.
func address(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}), 24)
}

// Link is how packets fare from one host to another.
type Link struct {
	Down  bool
	Delay time.Duration
	Loss  float64 // probability, 0 to 1
}

// Traffic counts the packets that a host was sent and those that it was not given.
type Traffic struct{ Passed, Dropped int64 }

// Network is a switch and its hosts. Its methods may be called from many goroutines.
type Network struct {
	wg      sync.WaitGroup
	closing chan struct{} // closed by Close
	once    sync.Once     // of Close
	err     error         // of Close

	mu    sync.RWMutex // guards the rest
	hosts []*Host
	links map[[2]int]*path
	over  bool

	dice  sync.Mutex // guards rng; taken last
	rng   *rand.Rand
	count struct{ passed, dropped atomic.Int64 }
}

// path is one direction of a pair of hosts. Without one, packets pass at once.
type path struct {
	link  Link
	queue chan parcel // nil until it has had a delay
}

type parcel struct {
	due    time.Time
	packet []byte
}

// Host is an address with a network namespace of its own, but for the one that Join made.
type Host struct {
	net    *Network
	id     int
	ns     *os.File // nil for the caller's namespace
	device *os.File
}

// NewNetwork makes a network without hosts. The seed decides which packets are lost.
func NewNetwork(seed uint64) (*Network, error) {
	if !Inside() {
		return nil, ErrOutside
	}
	n := &Network{closing: make(chan struct{}), links: map[[2]int]*path{}}
	n.Seed(seed)
	return n, nil
}

// Seed begins the dice anew.
func (n *Network) Seed(seed uint64) {
	n.dice.Lock()
	defer n.dice.Unlock()
	n.rng = rand.New(rand.NewPCG(seed, 0x6c6162)) //nolint:gosec // chooses packets
}

// Join makes the caller's own namespace a host, so that this process, and those it starts as usual, can reach the others. A
// process can be in one network at a time.
func (n *Network) Join() (*Host, error) { return n.add(nil) }

// Add makes a host in a namespace of its own.
func (n *Network) Add() (*Host, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	h, err := n.add(ns)
	if err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	return h, nil
}

func (n *Network) add(ns *os.File) (*Host, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return nil, errors.New("lab: the network is closed")
	}
	if len(n.hosts) == maxHosts {
		return nil, fmt.Errorf("lab: a network has at most %d hosts", maxHosts)
	}
	h := &Host{net: n, id: len(n.hosts), ns: ns}
	open := func() (err error) {
		h.device, err = openDevice(address(h.id))
		return err
	}
	var err error
	if ns != nil {
		err = inNamespace(ns, open)
	} else {
		err = open()
	}
	if err != nil {
		return nil, err
	}
	n.hosts = append(n.hosts, h)
	n.wg.Go(func() { n.read(h) })
	return h, nil
}

// IP is the host's address.
func (h *Host) IP() string { return address(h.id).Addr().String() }

// Do runs f on the host: sockets that it opens are the host's for ever. f must not leave that to other goroutines.
func (h *Host) Do(f func() error) error {
	if h.ns == nil {
		return f()
	}
	return inNamespace(h.ns, f)
}

// Start starts a command on the host. The child is forked from the thread that is there.
func (h *Host) Start(cmd *exec.Cmd) error { return h.Do(cmd.Start) }

// Wrap changes a command that somebody else starts, so that it runs on the host. nsenter, of util-linux, executes it.
func (h *Host) Wrap(cmd *exec.Cmd) error {
	if h.ns == nil {
		return nil
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	// The path is opened in the child, by which time it is one of this process.
	ns := "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(int(h.ns.Fd()))
	cmd.Args = append([]string{nsenter, "--net=" + ns, "--", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = nsenter
	return nil
}

// Set makes packets between a and b fare as l says from now on, both ways; the zero Link is as at the start. What is on its way
// arrives.
func (n *Network) Set(a, b *Host, l Link) {
	n.SetOneWay(a, b, l)
	n.SetOneWay(b, a, l)
}

// SetOneWay is Set for packets from a to b only.
func (n *Network) SetOneWay(a, b *Host, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return
	}
	key := [2]int{a.id, b.id}
	p := n.links[key]
	if p == nil {
		p = &path{}
		n.links[key] = p
	}
	p.link = l
	if l.Delay > 0 && p.queue == nil {
		p.queue = make(chan parcel, backlog)
		n.wg.Go(func() { n.deliver(b, p.queue) })
	}
}

// Among sets all pairs of the hosts.
func (n *Network) Among(l Link, hosts ...*Host) {
	for i, a := range hosts {
		for _, b := range hosts[:i] {
			n.Set(a, b, l)
		}
	}
}

// Isolate sets all links between h and the others.
func (n *Network) Isolate(h *Host, l Link) {
	n.mu.RLock()
	all := n.hosts[:len(n.hosts):len(n.hosts)]
	n.mu.RUnlock()
	for _, o := range all {
		if o != h {
			n.Set(h, o, l)
		}
	}
}

// Traffic is the count so far.
func (n *Network) Traffic() Traffic {
	return Traffic{Passed: n.count.passed.Load(), Dropped: n.count.dropped.Load()}
}

// Close removes all devices and lets go of the namespaces; processes in them keep theirs, with no way out. It may be repeated.
func (n *Network) Close() error {
	n.once.Do(func() {
		n.mu.Lock()
		n.over = true
		close(n.closing)
		var errs []error
		for _, h := range n.hosts {
			errs = append(errs, h.device.Close())
			if h.ns != nil {
				errs = append(errs, h.ns.Close())
			}
		}
		n.mu.Unlock()
		n.wg.Wait()
		n.err = errors.Join(errs...)
	})
	return n.err
}
