package fairlock

import "slices"

// refuse fails those who wait and that which names, because the database has refused what they need and repeating it cannot
// help: a caller gets that error and does not wait for ever. Their numbers are given back.
func (l *line) refuse(which func(*claim) bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuseLocked(which, func(*claim) error { return err })
}

// refuseLocked is refuse. The caller holds mu.
func (l *line) refuseLocked(which func(*claim) bool, err func(*claim) error) {
	for _, r := range slices.Clone(l.runs) {
		for _, c := range slices.Clone(r.claims) {
			if c.state == queued && which(c) {
				c.err = err(c)
				close(c.ready)
				l.release(c)
			}
		}
	}
}
