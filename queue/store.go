package queue

import (
	"context"
	"time"
)

// Arrival is one request for numbers. The same Arrival may be sent any number of times: its numbers are issued once, as
// long as its lock document remembers it (see slots).
type Arrival struct {
	Owner uint64        // the process; chooses the slot
	Mark  int64         // of this arrival, random
	Units int64         // how many numbers, at least 1
	Grace time.Duration // how long they may be trusted without a ticket
	Limit int64         // most units that may wait then, these included; 0: no limit
	// Weight is how many units each of those who arrive wants, all at once; 0 is 1.
	Weight int64
}

func (a Arrival) weight() int64 { return max(a.Weight, 1) }

// Store is every database call on the queue. [Collections] is the real one; the simulator has another. All calls
// may fail with an unknown outcome ([Permanent] says when not), and all may be repeated.
type Store interface {
	// Enqueue takes the next numbers of the lock, which it makes if it is missing. A shape that differs is
	// a *MismatchError, too many who would wait a *TooManyWaitersError, a weight that never fits a *TooBigError; none takes a number.
	Enqueue(ctx context.Context, name string, shape Shape, a Arrival) (Place, error)
	// Try is Enqueue that takes numbers only when they are admitted at once; admitted is false otherwise, and nothing was
	// changed. A refusal may rest on an old state; that it was admitted never does.
	Try(ctx context.Context, name string, shape Shape, a Arrival) (p Place, admitted bool, err error)
	// Settle ends the numbers of ranges for ever. fresh is false when all of them had been settled before, or the lock
	// document is gone. arrival is the newest arrival among them, or 0.
	Settle(ctx context.Context, name string, ranges []Range, arrival int64) (fresh bool, err error)
	// SettleFront is Settle of one range, cheaper, in the usual case of a mutex: all before it is settled and nothing after it.
	// done is false when that is not so, or not known; nothing was changed then, and nothing is proved.
	SettleFront(ctx context.Context, name string, shape Shape, r Range, arrival int64) (done bool, err error)
	// SetPermits changes the permits of a semaphore, which it makes if it is missing, for all who use it, and admits those who now fit. Who
	// was admitted stays so. A lock of another kind is a *MismatchError.
	SetPermits(ctx context.Context, name string, permits int64) error
	// RequestRelease notes who wants those who hold the lock to give it back. noted is false when nobody holds it.
	RequestRelease(ctx context.Context, name, by string) (noted bool, err error)
	// Force settles a range that is admitted, whoever's it is, and leaves the entry. passed is how many numbers right before it its owner has
	// said that it is done with; they are settled too. done is false, and nothing changed, when the range is not admitted, or settled already.
	Force(ctx context.Context, name string, passed int64, r Range, f Forced) (done bool, err error)
	// Views reads lock documents at majority, without Done. Documents that are missing are missing in the reply; that
	// proves nothing, for the reply may be old.
	Views(ctx context.Context, names []string) ([]View, error)
	// View reads one lock document at majority, with Done. found is false when there is none.
	View(ctx context.Context, name string) (v View, found bool, err error)
	// Gone reports by a linearizable read that there is no lock document now. Only this proves absence.
	Gone(ctx context.Context, name string) (bool, error)
	// Page pages through all lock documents after the name after, in order. Of those that are malformed only Name and Malformed are set.
	Page(ctx context.Context, after string, limit int) ([]View, error)
	// Collect deletes lock documents that have been idle for a day, as the TTL index does where Setup made one.
	Collect(ctx context.Context) error
	// BusyLocks pages through the names of locks that somebody holds or waits for, after the name after, in order.
	BusyLocks(ctx context.Context, after string, limit int) ([]string, error)

	// PutTicket writes the ticket, or confirms that it stands. It returns ErrTombstone when a reaper has taken its place.
	PutTicket(ctx context.Context, t Ticket, age time.Duration) error
	// MarkPassed notes in a ticket that its numbers up to passed are done with inside the owner's process.
	MarkPassed(ctx context.Context, id TicketID, session string, passed int64) error
	// DropTickets deletes tickets by id, whoever's they are. Only tickets whose range is settled may be given.
	DropTickets(ctx context.Context, ids []TicketID) error
	// Bury writes tombstones for the numbers of gaps, then reads again, and returns the numbers that a
	// tombstone covers and no ticket: those are settled by right (I3).
	Bury(ctx context.Context, name string, gaps []Range) ([]Range, error)
	// Tickets reads tickets and tombstones of one lock that begin at a number up to hi, in order.
	Tickets(ctx context.Context, name string, hi int64, limit int) ([]Ticket, error)
	// TicketsOfSession pages through a session's tickets after the given id, in order.
	TicketsOfSession(ctx context.Context, session string, after TicketID, limit int) ([]Ticket, error)
	// AllTickets pages through all tickets after the given id, in order.
	AllTickets(ctx context.Context, after TicketID, limit int) ([]Ticket, error)
}

// Place is what an arrival got.
type Place struct {
	Range
	Arrival int64
	View    View // the lock document right after
}

// View is what a lock document says.
type View struct {
	Name      string     `bson:"_id"`
	Version   int32      `bson:"v"` // of the schema; 0 where it was not read
	Kind      Kind       `bson:"kind"`
	Permits   int64      `bson:"permits"` // 0 where it was not read
	Managed   bool       `bson:"managed"` // the permits are those of SetPermits, whatever users name
	Issued    int64      `bson:"issued"`
	Settled   int64      `bson:"settled"`
	Frontier  int64      `bson:"frontier"`
	Arrivals  int64      `bson:"arrivals"`
	Reached   int64      `bson:"reached"`
	Calls     int64      `bson:"calls"`
	CalledAt  *time.Time `bson:"calledAt"`
	GraceMS   int64      `bson:"grace"`
	IdleSince *time.Time `bson:"idleSince"`
	Done      []Range    `bson:"done"`
	Forces    int64      `bson:"forces"`  // how often a lock was unlocked by force; 0 also where it was not read
	Forced    int64      `bson:"forced"`  // the last of their tokens
	Request   *Request   `bson:"request"` // the newest
	Audit     []Forced   `bson:"audit"`   // only View fills it
	Now       time.Time  `bson:"now"`     // the server's clock at the read; only View fills it

	Malformed error `bson:"-"` // set by Page only
}

// Shape is the lock's kind and permits.
func (v *View) Shape() Shape { return Shape{v.Kind, v.Permits} }

// Agrees reports whether users of that shape may use the lock.
func (v *View) Agrees(shape Shape) bool {
	return v.Kind == shape.Kind && (v.Permits == shape.Permits || v.Managed && v.Kind == KindSemaphore)
}

// Grace is the longest that any owner of a number without a ticket may still trust it.
func (v *View) Grace() time.Duration { return time.Duration(v.GraceMS) * time.Millisecond }

// Admits reports whether the range is admitted: the definition of a grant (I4). A number at or below Settled that its
// owner has not settled is not admitted but void: the document was dropped and made anew, or somebody settled the
// number.
func (v *View) Admits(r Range) bool { return v.Settled < r.Lo && r.Hi <= v.Frontier }
