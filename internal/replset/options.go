package replset

import (
	"fmt"
	"log/slog"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// Options say what Start starts. The zero value is a replica set of three.
type Options struct {
	// Members is 1 or 3. Defaults to 3, with Standalone to 1.
	Members int

	// Standalone starts one server that is no replica set: no change streams, no
	// majority, no transactions.
	Standalone bool

	// Dir is where the data goes, one folder per member. It must be empty or
	// absent, and is left in place by Stop. Defaults to a temporary folder, which
	// Stop removes.
	Dir string

	// Name is the replica set's name. Defaults to "fairlock".
	Name string

	// ElectionTimeout is how long secondaries wait for a silent primary before
	// they elect. Defaults to the server's own 10 s. Below 4 s, the members also
	// exchange heartbeats more often than the usual 2 s, twice per timeout.
	ElectionTimeout time.Duration

	// OplogMB is the most that the oplog keeps. Defaults to the server's own choice
	// (5 % of the disk).
	OplogMB int

	// CacheMB is the storage cache of each member. Defaults to 256, the least that
	// the server accepts; it refuses documents near 16 MB with that little.
	CacheMB int

	// SetParameters go to each member as --setParameter name=value.
	SetParameters map[string]string

	// Secure turns authentication on (a key file) and requires TLS, with certificates
	// of an authority made for this set, valid for one day. URI is then that of an
	// administrator with the role root, and carries password and authority; URIFor is
	// that of any other user, whom the administrator makes with createUser. CAFile is
	// for clients of other kinds. Not with Standalone.
	Secure bool

	// Args go to each member as they are, after all others.
	Args []string

	// Host is the address that a member listens on and is known by, Members being
	// numbered from 0. Defaults to 127.0.0.1 for all (I6).
	Host func(member int) string

	// DBPath is where a member keeps its data. Defaults to a folder below Dir.
	DBPath func(member int) string

	// Launch starts a member's process at each of its runs. It may add to the command's environment and start it
	// in a place of its own, such as a network namespace; the rest of the command is the set's.
	// Defaults to (*exec.Cmd).Start.
	Launch func(member int, cmd *exec.Cmd) error

	// Log gets what Start and Stop do. Defaults to discarding.
	Log *slog.Logger
}

const (
	defaultMembers   = 3
	defaultName      = "fairlock"
	defaultCacheMB   = 256
	defaultHeartbeat = 2 * time.Second // the server's
)

// journal makes a fresh member take 50 MB of disk in place of 300. One file must
// hold the largest write, which is a 16 MB document and its oplog entry.
const journal = "log=(file_max=48MB,prealloc=false)"

var setName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// withDefaults checks o and fills it in.
func (o Options) withDefaults() (Options, error) {
	bad := func(format string, args ...any) (Options, error) {
		return Options{}, fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Members == 0 && o.Standalone:
		o.Members = 1
	case o.Members == 0:
		o.Members = defaultMembers
	case o.Members != 1 && o.Members != 3:
		return bad("Members is %d, must be 1 or 3", o.Members)
	case o.Members != 1 && o.Standalone:
		return bad("Standalone has 1 member, not %d", o.Members)
	}
	if o.Standalone && o.Secure {
		return bad("Secure needs a replica set, not Standalone")
	}
	if o.Name == "" {
		o.Name = defaultName
	}
	if !setName.MatchString(o.Name) {
		return bad("Name %q must be 1 to 64 letters, digits, _ or -", o.Name)
	}
	if o.ElectionTimeout < 0 || o.ElectionTimeout != 0 && o.ElectionTimeout < time.Millisecond {
		return bad("ElectionTimeout is %v, must be at least 1 ms", o.ElectionTimeout)
	}
	if o.OplogMB < 0 {
		return bad("OplogMB is %d", o.OplogMB)
	}
	if o.CacheMB == 0 {
		o.CacheMB = defaultCacheMB
	}
	if o.CacheMB < defaultCacheMB {
		return bad("CacheMB is %d, must be at least %d", o.CacheMB, defaultCacheMB)
	}
	if o.Host == nil {
		o.Host = func(int) string { return loopbackHost }
	}
	if o.Launch == nil {
		o.Launch = func(_ int, cmd *exec.Cmd) error { return cmd.Start() }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// args is the command line of one member.
func (o Options) args(host string, port int, dbpath string) []string {
	a := []string{
		"--bind_ip", host,
		"--port", strconv.Itoa(port),
		"--dbpath", dbpath,
		"--nounixsocket",
		"--quiet",
		"--wiredTigerCacheSizeGB", strconv.FormatFloat(float64(o.CacheMB)/1024, 'f', -1, 64),
		"--wiredTigerEngineConfigString", journal,
		"--setParameter", "diagnosticDataCollectionEnabled=false",
	}
	if !o.Standalone {
		a = append(a, "--replSet", o.Name)
	}
	if o.OplogMB > 0 {
		a = append(a, "--oplogSize", strconv.Itoa(o.OplogMB))
	}
	for _, name := range sortedKeys(o.SetParameters) {
		a = append(a, "--setParameter", name+"="+o.SetParameters[name])
	}
	return append(a, o.Args...)
}
