// Package tail keeps the end of what a child process writes, for the error that says how it ended.
package tail

import "sync"

const most = 4096

// Tail is an io.Writer that keeps the last 4096 bytes. Its zero value is empty and ready.
type Tail struct {
	mu  sync.Mutex // guards buf; exec writes from a goroutine of its own
	buf []byte
}

// Write keeps the end of all that was written. It never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - most; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(b), nil
}

// String is what is kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
