package report

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is where, when and how a run was made.
type Machine struct {
	Date    string            `json:"date"`
	Command string            `json:"command"`
	Cores   int               `json:"cores"`
	CPU     string            `json:"cpu"`
	Memory  int64             `json:"memory_mib"`
	Kernel  string            `json:"kernel"`
	Go      string            `json:"go"`
	Servers map[string]string `json:"servers"` // versions
}

// ThisMachine describes this machine and this process.
func ThisMachine(servers map[string]string) Machine {
	m := Machine{
		Date: time.Now().UTC().Format(time.RFC3339), Command: command(), Cores: runtime.NumCPU(), CPU: cpuModel(),
		Go: runtime.Version(), Servers: servers,
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) == nil {
		m.Memory = int64(uint64(s.Totalram) * uint64(s.Unit) >> 20)
	}
	return m
}

// command is the command line, without the path that go run chose for the binary.
func command() string {
	name := os.Args[0][strings.LastIndexByte(os.Args[0], '/')+1:]
	return strings.Join(append([]string{name}, os.Args[1:]...), " ")
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range bytes.Lines(text) {
		if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// Markdown is one paragraph.
func (m Machine) Markdown() string {
	var servers []string
	for _, name := range sortedKeys(m.Servers) {
		servers = append(servers, name+" "+m.Servers[name])
	}
	return fmt.Sprintf("Measured at %s by `%s` on %d cores (%s), %d MiB, %s, %s; %s. Servers and contenders share the machine, on loopback: "+
		"take the ratios, not the absolute values.\n", m.Date, m.Command, m.Cores, m.CPU, m.Memory, m.Kernel, m.Go, strings.Join(servers, ", "))
}
