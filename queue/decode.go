package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Whoever may write to the collections can put anything there. What is read is therefore decoded here, by rules that leave no
// value on which arithmetic could overflow or a walk over numbers could take for ever. A document that breaks one is passed over: it must not
// stop the queue of the others.

const (
	// MostNumber bounds numbers and counts: the sum of any four does not overflow. Numbers begin near 2^51.
	MostNumber = int64(1) << 60
	// MostLease bounds durations in documents, far above what Config allows.
	MostLease = 24 * time.Hour
	// mostText is the longest label, in bytes; more of it is not read.
	mostText = 255
)

// ErrMalformed: a document in one of fairlock's collections does not have the form of one of fairlock's documents. The message
// names the document and the rule.
var ErrMalformed = errors.New("fairlock: malformed document")

// Malformed is an [ErrMalformed] of a document that is named as what and id. Strings from documents are cut and escaped.
func Malformed(what, id, rule string, args ...any) error {
	return fmt.Errorf("%w: %s %s: %s", ErrMalformed, what, quote(id), fmt.Sprintf(rule, args...))
}

func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

// Text is a string field for people, or "" when it is none; what is too long is cut.
func Text(v bson.RawValue) string {
	s, _ := v.StringValueOK()
	return s[:min(len(s), mostText)]
}

// Integer is a whole number of any of BSON's types for integers, which is what fairlock writes.
func Integer(v bson.RawValue) (int64, bool) {
	if n, ok := v.Int64OK(); ok {
		return n, true
	}
	n, ok := v.Int32OK()
	return int64(n), ok
}

// Told reads what toldExpr has written.
func Told(text string) (settled, frontier int64, ok bool) {
	s, f, ok := strings.Cut(text, " ")
	settled, err := strconv.ParseInt(s, 10, 64)
	frontier, err2 := strconv.ParseInt(f, 10, 64)
	ok = ok && err == nil && err2 == nil && settled >= 0 && settled < frontier && frontier <= MostNumber
	return settled, frontier, ok
}

// nameOf is the _id of a document for a message.
func nameOf(raw bson.Raw) string {
	id := raw.Lookup("_id")
	if s, ok := id.StringValueOK(); ok {
		return s
	}
	return "of type " + id.Type.String()
}

func decodeView(raw bson.Raw) (View, error) {
	var v View
	if err := raw.Validate(); err != nil { // a lookup in broken bytes can panic
		return View{}, Malformed("lock", "", "%v", err)
	}
	if err := bson.Unmarshal(raw, &v); err != nil {
		return View{}, Malformed("lock", nameOf(raw), "%v", err)
	}
	return v, v.check()
}

// check refuses a document that decodes but cannot be one of ours.
func (v *View) check() error {
	bad := func(rule string, args ...any) error { return Malformed("lock", v.Name, rule, args...) }
	switch {
	case v.Version > SchemaVersion:
		return bad("schema version is %d, this fairlock knows %d: a newer one has written it", v.Version, SchemaVersion)
	case v.Kind == "" || len(v.Kind) > mostText:
		return bad("kind has %d bytes, must have 1 to %d", len(v.Kind), mostText)
	case v.Permits < 1 || v.Permits > MostNumber:
		return bad("permits is %d, must be at least 1", v.Permits)
	case v.Settled < 0 || v.Issued < v.Settled || v.Issued > MostNumber:
		return bad("issued is %d and settled %d, must be 0 <= settled <= issued", v.Issued, v.Settled)
	case v.Frontier < v.Settled+1 || v.Frontier > v.Issued+v.mostPermits():
		return bad("frontier is %d, must be above settled %d and at most permits %d above issued %d", v.Frontier, v.Settled, v.mostPermits(), v.Issued)
	case v.Forced < 0 || v.Forced > MostNumber || v.Forces < 0 || v.Forces > MostNumber:
		return bad("forced is %d and forces %d, must be from 0 to %d", v.Forced, v.Forces, MostNumber)
	case v.Request != nil && (v.Request.N < 1 || v.Request.UpTo < 0 || v.Request.UpTo > MostNumber):
		return bad("request is number %d up to %d, must be at least 1 and up to at most %d", v.Request.N, v.Request.UpTo, MostNumber)
	case v.GraceMS < 0 || v.GraceMS > MostLease.Milliseconds():
		return bad("grace is %d ms, must be from 0 to %v", v.GraceMS, MostLease)
	}
	at := v.Settled
	for _, d := range v.Done {
		if d.Lo <= at || d.Hi < d.Lo || d.Hi > v.Issued {
			return bad("done has %v, must be sorted and between settled %d and issued %d", d, v.Settled, v.Issued)
		}
		at = d.Hi
	}
	return nil
}

// mostPermits is the most that the permits have ever been: they may have been lowered.
func (v *View) mostPermits() int64 {
	if v.Managed {
		return max(v.Permits, MostPermits)
	}
	return v.Permits
}

// ticketAt is the number whose ticket the document keeps out, if it stands in the queue of the lock name: its _id equals that of
// the ticket, as the unique index sees it, to which 5 is 5 in whatever type. own is true when it is as fairlock writes it.
func ticketAt(raw bson.Raw) (id TicketID, own, ok bool) {
	if raw.Validate() != nil {
		return TicketID{}, false, false
	}
	sub, isDoc := raw.Lookup("_id").DocumentOK()
	if !isDoc {
		return TicketID{}, false, false
	}
	fields, err := sub.Elements()
	if err != nil || len(fields) != 2 || fields[0].Key() != "lock" || fields[1].Key() != "lo" {
		return TicketID{}, false, false
	}
	lock, lo := fields[0].Value(), fields[1].Value()
	id.Lock, own = lock.StringValueOK()
	if !own {
		if id.Lock, ok = lock.SymbolOK(); !ok {
			return TicketID{}, false, false
		}
	}
	if id.Lo, ok = lo.Int64OK(); ok {
		return id, own, true
	}
	id.Lo, ok = equalInteger(lo)
	return id, false, ok
}

// equalInteger is the whole number that compares as equal to v.
func equalInteger(v bson.RawValue) (int64, bool) {
	if n, ok := Integer(v); ok {
		return n, true
	}
	if f, ok := v.DoubleOK(); ok && f == math.Trunc(f) && math.Abs(f) <= float64(MostNumber) {
		return int64(f), true
	}
	if d, ok := v.Decimal128OK(); ok {
		return wholeDecimal(d)
	}
	return 0, false
}

func wholeDecimal(d bson.Decimal128) (int64, bool) {
	n, exp, err := d.BigInt()
	if err != nil || !n.IsInt64() {
		return 0, false
	}
	v := n.Int64()
	for ; exp > 0 && v != 0; exp-- {
		if v > MostNumber || v < -MostNumber {
			return 0, false
		}
		v *= 10
	}
	for ; exp < 0 && v != 0; exp++ {
		if v%10 != 0 {
			return 0, false
		}
		v /= 10
	}
	return v, true
}

// decodeTicket is strict in what the order rests on, and forgiving in what is for people: a ticket whose labels somebody has
// edited is a ticket.
func decodeTicket(raw bson.Raw) (Ticket, error) {
	if err := raw.Validate(); err != nil {
		return Ticket{}, Malformed("ticket", "", "%v", err)
	}
	id, own, ok := ticketAt(raw)
	if !ok || !own {
		return Ticket{}, Malformed("ticket", nameOf(raw), "_id must be {lock: string, lo: long}")
	}
	t := Ticket{ID: id}
	bad := func(rule string, args ...any) (Ticket, error) {
		return Ticket{}, Malformed("ticket", id.Lock, "%d: %s", id.Lo, fmt.Sprintf(rule, args...))
	}
	if t.Hi, ok = Integer(raw.Lookup("hi")); !ok || id.Lo < 1 || t.Hi < id.Lo || t.Hi > MostNumber {
		return bad("hi is %d, must be at least lo and at most %d", t.Hi, MostNumber)
	}
	tomb, err := raw.LookupErr("tomb")
	t.Tomb = err == nil
	session, err := raw.LookupErr("session")
	hasSession := err == nil
	t.Session, ok = session.StringValueOK()
	switch isTrue, _ := tomb.BooleanOK(); {
	case t.Tomb && (!isTrue || hasSession || t.Hi != id.Lo):
		return bad("a tombstone has tomb: true, no session and one number")
	case !t.Tomb && (!ok || t.Session == "" || len(t.Session) > mostText):
		return bad("session must have 1 to %d bytes", mostText)
	}
	if t.Weight, _ = Integer(raw.Lookup("weight")); t.Weight < 1 || t.Weight > t.Range().Units() {
		t.Weight = 1
	}
	if t.Arrival, _ = Integer(raw.Lookup("arrival")); t.Arrival < 0 || t.Arrival > MostNumber {
		t.Arrival = 0
	}
	if t.Passed, _ = Integer(raw.Lookup("passed")); t.Passed < 0 || t.Passed > t.Hi {
		t.Passed = 0
	}
	t.At, _ = raw.Lookup("at").TimeOK()
	labels, _ := raw.Lookup("labels").ArrayOK()
	values, _ := labels.Values()
	for _, l := range values[:min(len(values), MaxLabels)] {
		t.Labels = append(t.Labels, Text(l))
	}
	return t, nil
}

// Passed is told how many documents of a collection were passed over in one read, and why the first of them was.
type Passed func(collection string, n int, first error)

// passed counts in one read.
type passed struct {
	n     int
	first error
}

func (p *passed) add(err error) {
	if p.n++; p.first == nil {
		p.first = err
	}
}

func (p *passed) tell(coll *mongo.Collection, to Passed) {
	if p.n > 0 && to != nil {
		to(coll.Name(), p.n, p.first)
	}
}

// ReadAll reads a cursor to its end. Documents that cannot be decoded are passed over.
func ReadAll[T any](ctx context.Context, coll *mongo.Collection, cur *mongo.Cursor, decode func(bson.Raw) (T, error), to Passed) ([]T, error) {
	defer cur.Close(context.WithoutCancel(ctx))
	var all []T
	var over passed
	for cur.Next(ctx) {
		v, err := decode(cur.Current)
		if err != nil {
			over.add(err)
			continue
		}
		all = append(all, v)
	}
	if err := cur.Err(); err != nil {
		return nil, fmt.Errorf("fairlock: read: %w", err)
	}
	over.tell(coll, to)
	return all, nil
}

// ReadSorted reads up to limit documents in the order of their _id. What cannot be decoded is passed over, and does not count: it
// reads on behind a page on which there was nothing else.
func ReadSorted[T any](
	ctx context.Context, coll *mongo.Collection, filter bson.D, project bson.D, limit int, decode func(bson.Raw) (T, error), to Passed,
) (all []T, err error) {
	var over passed
	for rest := filter; ; {
		o := options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)).SetBatchSize(1000)
		if project != nil {
			o.SetProjection(project)
		}
		cur, err := coll.Find(ctx, rest, o)
		if err != nil {
			return nil, err
		}
		read := 0
		var last bson.RawValue
		for cur.Next(ctx) {
			read++
			last = cur.Current.Lookup("_id")
			if len(all) == limit {
				continue
			}
			v, err := decode(cur.Current)
			if err != nil {
				over.add(err)
				continue
			}
			all = append(all, v)
		}
		last.Value = append([]byte(nil), last.Value...) // the cursor's memory
		err = cur.Err()
		_ = cur.Close(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		if read < limit || len(all) == limit {
			over.tell(coll, to)
			return all, nil
		}
		rest = bson.D{{Key: "$and", Value: bson.A{filter, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: last}}}}}}}
	}
}
