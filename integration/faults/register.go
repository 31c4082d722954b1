package faults

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/fairlock/fairlock/internal/clock"
)

// registerLimit bounds one call on a register.
const registerLimit = 20 * time.Second

// Outcome is what a caller knows of its call on a register.
type Outcome string

// The outcomes.
const (
	Accepted Outcome = "accepted"
	Refused  Outcome = "refused"
	Unknown  Outcome = "unknown" // it may have happened, or still happen
	Shown    Outcome = "shown"   // of a read
)

// Op is one call on the register of a lock. Each is written twice: when it is about to be made, and with its outcome.
type Op struct {
	Proc    int     `json:"proc"`
	ID      int64   `json:"id"` // unique in the process
	Lock    string  `json:"lock,omitempty"`
	Read    bool    `json:"read,omitempty"`
	Token   int64   `json:"token,omitempty"` // written, or shown by a read
	Value   string  `json:"value,omitempty"`
	Call    Instant `json:"call,omitempty"`
	Return  Instant `json:"return,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`
}

// registers is the data that the locks protect: one document for each lock, with the newest token and value.
type registers struct {
	coll *mongo.Collection
	proc int
	ids  atomic.Int64

	mu  sync.Mutex // makes lines whole
	out io.Writer
}

const registerColl = "register"

func openRegisters(db *mongo.Database, proc int, out io.Writer) *registers {
	return &registers{proc: proc, out: out, coll: db.Collection(registerColl, options.Collection().
		SetWriteConcern(writeconcern.Majority()).SetReadConcern(readconcern.Linearizable()).SetReadPreference(readpref.Primary()))}
}

// create makes an empty register for each lock.
func (r *registers) create(ctx context.Context, locks []string) error {
	var docs []any
	for _, name := range locks {
		docs = append(docs, bson.D{{Key: "_id", Value: name}, {Key: "token", Value: int64(0)}, {Key: "value", Value: ""}})
	}
	_, err := r.coll.InsertMany(ctx, docs)
	return err
}

func (r *registers) note(o Op) {
	line, err := json.Marshal(o)
	if err != nil {
		panic("bug: " + err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.out.Write(append(line, '\n'))
}

// content is a register's document.
type content struct {
	Token int64  `bson:"token"`
	Value string `bson:"value"`
}

// write sets token and value unless the register has seen a newer token. A refused write changes the document as well: the refusal
// of a server that has been deposed and does not know it would otherwise be no proof. value is unique, so the document afterwards tells which
// it was.
func (r *registers) write(ctx context.Context, lock string, token int64, value string) Outcome {
	ctx, cancel := context.WithTimeout(ctx, registerLimit)
	defer cancel()
	o := Op{Proc: r.proc, ID: r.ids.Add(1), Lock: lock, Token: token, Value: value, Call: clock.System.Now()}
	r.note(o)
	newer := bson.D{{Key: "$gt", Value: bson.A{"$token", token}}}
	unless := func(field string, v any) bson.E {
		return bson.E{Key: field, Value: bson.D{{Key: "$cond", Value: bson.A{"$newer", "$" + field, v}}}}
	}
	var after content
	err := r.coll.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: lock}}, mongo.Pipeline{
		{{Key: "$set", Value: bson.D{{Key: "newer", Value: newer}}}},
		{{Key: "$set", Value: bson.D{
			unless("token", token), unless("value", bson.D{{Key: "$literal", Value: value}}),
			{Key: "asked", Value: bson.D{{Key: "$add", Value: bson.A{bson.D{{Key: "$ifNull", Value: bson.A{"$asked", int64(0)}}}, int64(1)}}}},
		}}},
	}, options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&after)
	outcome := Accepted
	switch {
	case err != nil:
		outcome = Unknown
	case after.Value != value:
		outcome = Refused
	}
	r.note(Op{Proc: r.proc, ID: o.ID, Return: clock.System.Now(), Outcome: outcome})
	return outcome
}

// read reads a register, linearizably. A read that fails tells nothing.
func (r *registers) read(ctx context.Context, lock string) {
	ctx, cancel := context.WithTimeout(ctx, registerLimit)
	defer cancel()
	o := Op{Proc: r.proc, ID: r.ids.Add(1), Lock: lock, Read: true, Call: clock.System.Now()}
	r.note(o)
	var now content
	if r.coll.FindOne(ctx, bson.D{{Key: "_id", Value: lock}}).Decode(&now) == nil {
		r.note(Op{Proc: r.proc, ID: o.ID, Return: clock.System.Now(), Outcome: Shown, Token: now.Token, Value: now.Value})
	}
}
