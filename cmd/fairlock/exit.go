package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fairlock/fairlock"
)

// Exit codes. 64, 69 and 75 are those of sysexits.h; 125 to 127 and 128+n are what env, timeout and shells use.
const (
	exitOK          = 0
	exitCostly      = 1
	exitBroken      = 2
	exitNoLock      = 3
	exitNotHeld     = 4
	exitUsage       = 64
	exitUnavailable = 69
	exitBusy        = 75
	exitLost        = 76
	exitInternal    = 125
	exitCannotExec  = 126
	exitNotFound    = 127
	exitSignal      = 128 // plus the number of the signal
)

// exitTable is part of the help.
const exitTable = `Exit codes:
  0      success; "run": the command's own code, whatever it is, unless one below applies
  1      "doctor": something costs time, safety or comfort
  2      "doctor": something keeps locks from working
  3      "status NAME", "queue": there is no such lock
  4      "release", "request-release": nobody holds the lock, or not with that token
  64     wrong usage, or the lock is of another kind: nothing was done
  69     MongoDB cannot be reached or used; "dev", "serve": cannot be started
  75     "run": the lock is busy (--no-wait) or was not granted in time (--wait); -E changes it
  76     "run": the lock was lost and the command was ended, even if it then exited with 0
  125    fairlock itself failed
  126    "run": the command could not be executed
  127    "run": the command was not found
  128+n  ended by signal n: the command while it ran, fairlock before that`

// exitError is an error with an exit code. One without a message is not reported: the command has spoken for itself.
type exitError struct {
	code int
	msg  string
	err  error // what msg was made of, if anything
}

func (e *exitError) Error() string { return e.msg }
func (e *exitError) Unwrap() error { return e.err }

// exitCode ends fairlock with a code and without a message.
func exitCode(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// exitf makes an error with a code. Like fmt.Errorf it wraps what %w stands for.
func exitf(code int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &exitError{code: code, msg: err.Error(), err: err}
}

// usagef is wrong usage. The message names the value and its rule.
func usagef(cmd *cobra.Command, format string, args ...any) error {
	return exitf(exitUsage, format+"\nSee '%s --help'.", append(args, cmd.CommandPath())...)
}

// signalled ends fairlock as a shell reports a process that died of the signal.
func signalled(sig syscall.Signal) error { return exitCode(exitSignal + int(sig)) }

// codeOf is the exit code for an error.
func codeOf(err error) int {
	var exit *exitError
	var dns *net.DNSError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, fairlock.ErrNotFound):
		return exitNoLock
	case errors.Is(err, fairlock.ErrNotHeld):
		return exitNotHeld
	case errors.Is(err, fairlock.ErrInvalidName), errors.Is(err, fairlock.ErrInvalidOption),
		errors.Is(err, fairlock.ErrMismatch), errors.Is(err, fairlock.ErrTooBig):
		return exitUsage
	case errors.Is(err, fairlock.ErrBusy), errors.Is(err, fairlock.ErrWaitLimit):
		return exitBusy
	case errors.Is(err, fairlock.ErrServer), errors.Is(err, fairlock.ErrPrivilege), mongo.IsNetworkError(err), mongo.IsTimeout(err), errors.As(err, &dns):
		return exitUnavailable
	}
	return exitInternal
}

// report tells the user what went wrong and returns the exit code.
func report(w io.Writer, err error) int {
	if err != nil && err.Error() != "" {
		say(w, err.Error())
	}
	return codeOf(err)
}

// say writes one message. Errors of the library carry the prefix already.
func say(w io.Writer, msg string) {
	_, _ = fmt.Fprintf(w, "fairlock: %s\n", strings.TrimPrefix(msg, "fairlock: "))
}
