package simulate

import (
	"sync"
	"time"
)

// draw is a source of chance for one decision, made of what the decision is about and of nothing else.
type draw uint64

// newDraw mixes a seed and what the decision is about.
func newDraw(about ...uint64) draw {
	d := draw(0x9e3779b97f4a7c15)
	for _, x := range about {
		d ^= draw(x)
		d.next()
	}
	return d
}

// next is splitmix64 (Steele, Lea and Flood, 2014).
func (d *draw) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (d *draw) n(n int) int { return int(d.next() % uint64(n)) }

func (d *draw) chance(p float64) bool { return float64(d.next()>>11)/(1<<53) < p }

func (d *draw) between(a, b time.Duration) time.Duration {
	return a + time.Duration(d.next()%uint64(b-a+1))
}

// of is a number for a word, the same in every process.
func of(word string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(word) {
		h = (h ^ uint64(word[i])) * 1099511628211
	}
	return h
}

// source is a draw that goroutines share.
type source struct {
	mu sync.Mutex // guards d
	d  draw
}

func newSource(about ...uint64) *source { return &source{d: newDraw(about...)} }

// Uint64 implements rand.Source.
func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.d.next()
}
