package fence

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

var (
	// ErrStale: a later holder has written to the document, so nothing was written. Errors that match it are of type [*StaleError].
	ErrStale = errors.New("fairlock: stale token")
	// ErrInvalid: a token, field, filter or update cannot be fenced. The error says which and why; nothing was written.
	ErrInvalid = errors.New("fairlock: cannot be fenced")
)

// StaleError names the tokens.
type StaleError struct {
	Token int64 // of the refused write
	Seen  int64 // the newest that the document has
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("fairlock: stale token %d: the document was written by a later holder, with token %d", e.Token, e.Seen)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// DefaultField is the field that holds the token unless [Field] says otherwise.
const DefaultField = "fence"

// Fence is one holder's token and the field that documents keep it in. It is a value, and safe for concurrent use.
type Fence struct {
	token int64
	field string
}

// Option is an option of [New].
type Option func(*Fence)

// Field names the top-level field that holds the token. Defaults to [DefaultField].
func Field(name string) Option { return func(f *Fence) { f.field = name } }

// New returns the fence of a token, which is above 0. The field is valid UTF-8 without dots and NUL, does not begin with $, and is not
// _id. Otherwise the error matches [ErrInvalid].
func New(token int64, opts ...Option) (Fence, error) {
	f := Fence{token: token, field: DefaultField}
	for _, o := range opts {
		o(&f)
	}
	switch {
	case token <= 0:
		return Fence{}, invalid("token %d must be above 0", token)
	case f.field == "" || f.field == "_id" || strings.HasPrefix(f.field, "$") || strings.ContainsAny(f.field, ".\x00") || !utf8.ValidString(f.field):
		return Fence{}, invalid("field %s must be a top-level field's name, not _id, without dots and NUL, and must not begin with $",
			strconv.QuoteToASCII(f.field))
	}
	return f, nil
}

// Token is the token.
func (f Fence) Token() int64 { return f.token }

// Filter narrows a filter to documents that no later holder has written to. It is for calls that this package does not have, such as
// bulk writes; a write that matches nothing is then not told from a stale one. The filter may be anything that the driver takes
// for one.
func (f Fence) Filter(filter any) bson.D {
	return bson.D{{Key: "$and", Value: bson.A{filter, f.admits()}}}
}

// admits is the condition on a document. A field that is null counts as missing, one of another type than a number admits nobody.
func (f Fence) admits() bson.D {
	return bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: f.field, Value: bson.D{{Key: "$lte", Value: f.token}, noArray}}},
		bson.D{{Key: f.field, Value: bson.D{{Key: "$eq", Value: nil}, noArray}}},
	}}}
}

// noArray: the other conditions are also true of an array in which they are true of an element.
var noArray = bson.E{Key: "$not", Value: bson.D{{Key: "$type", Value: "array"}}}

// Update returns an update that leaves the token in the document: of an update document, with operators, or a pipeline (mongo.Pipeline,
// []bson.D, bson.A). It must be used with [Fence.Filter]. An update that touches the field itself matches [ErrInvalid].
func (f Fence) Update(update any) (any, error) {
	switch p := update.(type) {
	case mongo.Pipeline:
		return f.pipeline(len(p), func(i int) any { return p[i] }), nil
	case []bson.D:
		return f.pipeline(len(p), func(i int) any { return p[i] }), nil
	case bson.A:
		return f.pipeline(len(p), func(i int) any { return p[i] }), nil
	}
	d, err := document(update, "update")
	if err != nil {
		return nil, err
	}
	if len(d) == 0 {
		return nil, invalid("the update is empty")
	}
	set := -1
	for i, op := range d {
		if !strings.HasPrefix(op.Key, "$") {
			return nil, invalid("the update has the field %s, where all must be operators; Replacement is for whole documents",
				strconv.QuoteToASCII(op.Key))
		}
		changes, ok := op.Value.(bson.D)
		if !ok {
			return nil, invalid("the update's %s is not a document", op.Key)
		}
		if err := f.leavesAlone(op.Key, changes); err != nil {
			return nil, err
		}
		if op.Key == "$set" {
			set = i
		}
	}
	return f.leave(update, d, set), nil
}

// leave adds the token to an update that d is the form of. What the user's operators have stays as it is, to be marshalled as the collection
// does it. The filter admits no greater token, so $max leaves the same as $set.
func (f Fence) leave(update any, d bson.D, set int) bson.D {
	token := bson.D{{Key: f.field, Value: f.token}}
	own, ok := fields(update)
	has := func(op string) bool { return slices.ContainsFunc(d, func(e bson.E) bool { return e.Key == op }) }
	for _, op := range []string{"$max", "$set"} {
		if ok && !has(op) {
			return append(own[:len(own):len(own)], bson.E{Key: op, Value: token})
		}
	}
	if set < 0 {
		return append(d, bson.E{Key: "$set", Value: token})
	}
	d[set].Value = append(d[set].Value.(bson.D), token...)
	return d
}

// leavesAlone refuses an operator that changes the field.
func (f Fence) leavesAlone(op string, changes bson.D) error {
	touches := func(path string) bool { return path == f.field || strings.HasPrefix(path, f.field+".") }
	for _, c := range changes {
		to, _ := c.Value.(string)
		if touches(c.Key) || op == "$rename" && touches(to) {
			return invalid("the update's %s touches %q, which holds the token", op, f.field)
		}
	}
	return nil
}

// pipeline goes last, so that whatever the stages before did to the field is undone.
func (f Fence) pipeline(n int, stage func(int) any) bson.A {
	p := make(bson.A, 0, n+1)
	for i := range n {
		p = append(p, stage(i))
	}
	return append(p, bson.D{{Key: "$set", Value: bson.D{{Key: f.field, Value: f.token}}}})
}

// Replacement returns a whole document with the token in it, in place of the one that it may have been read with. It must be used with
// [Fence.Filter].
func (f Fence) Replacement(replacement any) (bson.D, error) {
	d, err := document(replacement, "replacement")
	if err != nil {
		return nil, err
	}
	whole := make(bson.D, 0, len(d)+1)
	if own, ok := fields(replacement); ok {
		d = own
	}
	for _, e := range d {
		if strings.HasPrefix(e.Key, "$") {
			return nil, invalid("the replacement has the operator %s; Update is for those", e.Key)
		}
		if e.Key != f.field {
			whole = append(whole, e)
		}
	}
	return append(whole, bson.E{Key: f.field, Value: f.token}), nil
}

// fields are those of a document whose values need not be marshalled to be seen.
func fields(v any) (d bson.D, ok bool) {
	switch v := v.(type) {
	case bson.D:
		return v, true
	case bson.M:
		for key, value := range v {
			d = append(d, bson.E{Key: key, Value: value})
		}
		return d, true
	}
	return nil, false
}

// document is what the driver would send for a value.
func document(v any, what string) (bson.D, error) {
	if v == nil {
		return nil, invalid("the %s is nil", what)
	}
	raw, err := bson.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: the %s: %w", ErrInvalid, what, err)
	}
	var d bson.D
	return d, bson.Unmarshal(raw, &d)
}
