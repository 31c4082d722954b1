//go:build !(linux || darwin || freebsd)

package main

import "os"

func readerGone(*os.File) bool { return false }

func brokenPipe() error { return nil }

func jobControl() (sent chan os.Signal, stop func()) { return make(chan os.Signal), func() {} }

func stopSelf(chan os.Signal) {}

func isStop(os.Signal) bool { return false }
