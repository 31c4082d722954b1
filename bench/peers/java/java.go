// Package java has the contenders written in Java: Redisson's fair lock and Curator's InterProcessMutex. Their program keeps to the
// contract of package contend and is built with Maven, once for each version of its sources, into the cache folder.
//
// A JVM is far heavier than a contender in Go: 76 MB here, and half a second of both cores to start. [MaxContenders] bounds their number;
// the sizes above it are not measured.
package java

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/fairlock/fairlock/bench/peers/fetch"
)

// MaxContenders is how many JVMs a small machine bears.
const MaxContenders = 32

const advice = "install a JDK of version 17 or newer and Maven (Debian: apt-get install openjdk-17-jdk-headless maven)"

//go:embed pom.xml src
var sources embed.FS

// Kinds are the ways to lock that the program knows, each with its server.
var Kinds = []struct{ Name, Server string }{{"redisson-fair", "redis"}, {"curator-mutex", "zookeeper"}}

// build guards the one build of a process.
var build sync.Mutex

// ClassPath is what runs the contenders and a ZooKeeper server, built if it is not there yet.
func ClassPath(ctx context.Context) (string, error) {
	build.Lock()
	defer build.Unlock()
	if _, err := exec.LookPath("java"); err != nil {
		return "", &fetch.MissingError{What: "java", Advice: advice, Err: err}
	}
	digest, err := digest()
	if err != nil {
		return "", err
	}
	parent, err := fetch.Cache("java")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, digest)
	err = fetch.Into(dir, func(temp string) error {
		if err := os.CopyFS(temp, sources); err != nil {
			return err
		}
		return fetch.Run(ctx, temp, "mvn", "-q", "-B", "package")
	})
	if err != nil {
		return "", &fetch.MissingError{What: "the contenders in Java", Advice: advice, Err: err}
	}
	target := filepath.Join(dir, "target")
	return filepath.Join(target, "peers.jar") + string(filepath.ListSeparator) + filepath.Join(target, "lib", "*"), nil
}

func digest() (string, error) {
	var all [][]byte
	err := fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		all = append(all, []byte(path), text)
		return err
	})
	return fetch.Digest(all...), err
}

// Command is the process of one contender. Build with [ClassPath] first: a build within the start of a contender would count as its
// connecting. If nothing can be built, the process fails and says why.
func Command(args []string) *exec.Cmd {
	path, err := ClassPath(context.Background())
	if err != nil {
		return exec.Command("sh", "-c", `echo "$1" >&2; exit 1`, "sh", fmt.Sprint(err))
	}
	flags := []string{
		"-Xms16m", "-Xmx64m", "-Xss256k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path, "fairlock.Contender",
	}
	return exec.Command("java", append(flags, args...)...)
}
