// Package browser tests the gateway's status page in a real browser, Chromium, against a real gateway on a real replica set. It is a module of its own, so
// that a plain "go test ./..." needs no browser; "make browser" runs it.
//
// Chromium is that of FAIRLOCK_CHROMIUM, or the one in PATH, or Debian's, which apt-get installs if it is there. Without any the tests fail;
// none is skipped. It is driven by its DevTools protocol over two pipes (pipe.go): no port is opened and no driver is needed. It ends with the test.
//
// FAIRLOCK_SHOTS=DIR makes the tests leave pictures of the page there, to be looked at.
package browser
