package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

const (
	deviceName = "lab0"
	deviceMTU  = 1500
)

// openDevice makes a TUN device in the thread's network namespace and gives it an address. It is gone when the file is closed.
func openDevice(addr netip.Prefix) (_ *os.File, err error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("lab: /dev/net/tun: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	ifr, err := unix.NewIfreq(deviceName)
	if err != nil {
		return nil, err
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		return nil, fmt.Errorf("lab: make device: %w", err)
	}
	mask := netip.AddrFrom4([4]byte{255, 255, 255, 0})
	if err := configure(deviceName, addr.Addr(), mask); err != nil {
		return nil, err
	}
	// Known to the poller only now: before TUNSETIFF the file is of no device and would be reported as broken.
	return os.NewFile(uintptr(fd), "/dev/net/tun"), nil
}

func loopbackUp() error { return configure("lo", netip.Addr{}, netip.Addr{}) }

// configure sets address and mask, if given, and brings a device up.
func configure(name string, addr, mask netip.Addr) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }()
	call := func(req uint, set func(*unix.Ifreq) error) error {
		ifr, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		return errors.Join(set(ifr), unix.IoctlIfreq(s, req, ifr))
	}
	up := func(ifr *unix.Ifreq) error { ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }
	if addr.IsValid() {
		v4 := func(a netip.Addr) func(*unix.Ifreq) error {
			return func(ifr *unix.Ifreq) error { return ifr.SetInet4Addr(a.AsSlice()) }
		}
		if err := errors.Join(call(unix.SIOCSIFADDR, v4(addr)), call(unix.SIOCSIFNETMASK, v4(mask))); err != nil {
			return fmt.Errorf("lab: address of %s: %w", name, err)
		}
	}
	if err := call(unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("lab: bring %s up: %w", name, err)
	}
	return nil
}
