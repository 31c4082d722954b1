// Package chance is where fairlock's chance comes from: pauses that are spread, marks of arrivals, ids. A nil source is the
// runtime's, which everybody uses; the simulator gives each process one that follows from its seed. A source that is not nil
// must be safe for concurrent use.
package chance

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"
)

// Upto is a time from 0 to less than d, which must be positive.
func Upto(src rand.Source, d time.Duration) time.Duration {
	if src == nil {
		return rand.N(d)
	}
	return time.Duration(rand.New(src).Int64N(int64(d)))
}

// Uint64 is any number.
func Uint64(src rand.Source) uint64 {
	if src == nil {
		return rand.Uint64()
	}
	return src.Uint64()
}

// ID is a new ULID.
func ID(src rand.Source) string {
	if src == nil {
		return ulid.Make().String()
	}
	return ulid.MustNew(ulid.Now(), reader{src}).String()
}

type reader struct{ src rand.Source }

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) {
	var word [8]byte
	for i := range p {
		if i%8 == 0 {
			binary.LittleEndian.PutUint64(word[:], r.src.Uint64())
		}
		p[i] = word[i%8]
	}
	return len(p), nil
}
