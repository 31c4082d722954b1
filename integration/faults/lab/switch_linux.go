package lab

import (
	"time"
)

// read carries what one host sends, until its device is closed.
func (n *Network) read(h *Host) {
	buf := make([]byte, 1<<16)
	for {
		size, err := h.device.Read(buf)
		if err != nil {
			return // closed
		}
		n.route(h, buf[:size])
	}
}

// route passes a packet on, or keeps a copy for later, or drops it.
func (n *Network) route(from *Host, packet []byte) {
	// IPv4 only; the kernel also sends router solicitations of IPv6, which nobody answers.
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	dst := [4]byte(packet[16:20])
	i := int(dst[3]) - 1
	if n.over || i < 0 || i >= len(n.hosts) || dst != address(i).Addr().As4() {
		n.count.dropped.Add(1)
		return
	}
	to := n.hosts[i]
	p := n.links[[2]int{from.id, i}]
	if p == nil {
		n.hand(to, packet)
		return
	}
	if p.link.Down || n.lost(p.link.Loss) {
		n.count.dropped.Add(1)
		return
	}
	if p.link.Delay == 0 {
		n.hand(to, packet)
		return
	}
	select {
	case p.queue <- parcel{due: time.Now().Add(p.link.Delay), packet: append([]byte(nil), packet...)}:
	default:
		n.count.dropped.Add(1)
	}
}

func (n *Network) lost(p float64) bool {
	if p <= 0 {
		return false
	}
	n.dice.Lock()
	defer n.dice.Unlock()
	return n.rng.Float64() < p
}

// hand gives a host a packet. It fails only if the device is closed.
func (n *Network) hand(to *Host, packet []byte) {
	if _, err := to.device.Write(packet); err != nil {
		n.count.dropped.Add(1)
		return
	}
	n.count.passed.Add(1)
}

// deliver hands over the packets of a link with a delay, in their order, when they are due.
func (n *Network) deliver(to *Host, queue <-chan parcel) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case p := <-queue:
			if wait := time.Until(p.due); wait > 0 {
				timer.Reset(wait)
				select {
				case <-timer.C:
				case <-n.closing:
					return
				}
			}
			n.hand(to, p.packet)
		case <-n.closing:
			return
		}
	}
}
