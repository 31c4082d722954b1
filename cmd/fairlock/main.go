// Command fairlock takes FIFO-fair distributed locks on MongoDB from the command line: it runs commands under a lock,
// shows who holds and who waits, and starts throwaway servers to try it on. "fairlock --help" describes it.
package main

import (
	"io"
	"os"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == guardWord {
		os.Exit(beGuard(os.Args[2:]))
	}
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// guardWord is the argument that makes a fairlock the guard of another one's command. What else it needs it inherits.
const guardWord = "__guard"

// execute runs one command line and returns the exit code. What goes wrong is told here, in one place and on stderr.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCmd()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return report(stderr, root.Execute())
}
