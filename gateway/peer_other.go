//go:build !linux

package gateway

import (
	"net"
	"time"
)

func setUserTimeout(*net.TCPConn, time.Duration) {}
