// Package lab makes faults that need root: hosts that lose each other, slow and lossy links, wall clocks that jump, disks that are
// full or slow. It is Linux only, and what it makes has no name on the machine.
//
// # Nothing is left behind
//
// [Enter] moves the whole process, by executing it again, into a network namespace and a mount namespace of its own. Everything else
// hangs on that:
//
//	host        a network namespace without a name: a file descriptor here, and the processes in it
//	link        a TUN device, which is gone when its file descriptor is closed
//	disk        a mount in the private mount namespace
//	clock       a few bytes in the memory of one process, or a file that one server reads
//	processes   the caller's, under internal/guard
//
// The kernel closes descriptors and ends namespaces when the last process in them has ended, however it ended. Two things outlive a
// SIGKILL: the empty folders on which disks were mounted, and a throttle's control group. Both carry the process id in their names, and the next [Enter]
// on the machine removes those of the dead.
//
// # The network
//
// [Network] is a switch in this process: it reads packets of IP from each host's device and writes them to another's, or does not.
// A link has a delay, a loss, and can be down, for each direction of each pair of hosts, as a switch sees them; the TCP above is the kernel's
// and its repeats are real. Which packets are lost is a matter of the seed and of their order. (The kernel's own tool for
// this, tc's netem, is a module that is missing on many machines, this project's among them; and it knows links, not pairs.)
//
// Hosts have addresses of 10.77.0.0/24 inside the private namespaces, which have no way out: no route, no other device.
//
// # Clocks
//
// A server's wall clock is moved by libfaketime ([ServerClock]), which also translates the absolute times at which it waits. That
// does not reach Go programs: their runtime asks the kernel's vDSO without the C library. [WallClock] changes that: it
// puts a few instructions into the vDSO of one running process, whose mapping is private to it, that add an offset to
// CLOCK_REALTIME. The program is otherwise the one that everybody runs. Go waits by relative times and the
// monotonic clock, so there is nothing to translate. Stamps of a history are CLOCK_BOOTTIME and are not touched.
//
// # Disks
//
// [Disk] is a tmpfs of a given size, which can be filled. [Throttle] limits the writes of one process to the machine's disk.
//
// # Goroutines
//
// A Network has one goroutine for each host, which reads its device, and one for each link that has had a delay. Close ends them and
// waits.
package lab
