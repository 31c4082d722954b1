package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/queue"
)

// Row is one invoice in the ledger.
type Row struct {
	Number    int64  `bson:"_id" json:"number"`
	Line      int64  `bson:"line" json:"line"` // of the input, from 1
	Customer  string `bson:"customer" json:"customer"`
	Amount    Cents  `bson:"amount" json:"amount"`
	Total     Cents  `bson:"total" json:"total"` // of all rows up to this
	Prev      string `bson:"prev" json:"prev"`   // hash of the row before; "" for the first
	Hash      string `bson:"hash" json:"hash"`
	Token     int64  `bson:"token" json:"token"`
	Worker    int    `bson:"worker" json:"worker"`
	Goroutine int    `bson:"goroutine" json:"goroutine"`
}

// sum is the hash that a row with this content must have.
func (r *Row) sum() string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s|%d|%d|%q|%d|%d|%d|%d|%d",
		r.Prev, r.Number, r.Line, r.Customer, r.Amount, r.Total, r.Token, r.Worker, r.Goroutine))
	return hex.EncodeToString(h[:])
}

// head is the state that holders hand to each other (L1).
type head struct {
	N     int64  `bson:"n"`
	Total Cents  `bson:"total"`
	Hash  string `bson:"hash"`
	Token int64  `bson:"token"`
	Last  *Row   `bson:"last"` // row N; nil when N is 0
}

// next is the row that follows h.
func (h *head) next(inv Invoice, by writer) Row {
	r := Row{
		Number: h.N + 1, Line: h.N + 1, Customer: inv.Customer, Amount: inv.Amount, Total: h.Total + inv.Amount, Prev: h.Hash,
		Token: by.token, Worker: by.worker, Goroutine: by.goroutine,
	}
	r.Hash = r.sum()
	return r
}

// writer is who writes, and under which token.
type writer struct {
	token             int64
	worker, goroutine int
}

// outcome is what one turn at the ledger did.
type outcome struct {
	n        int64 // rows in the ledger, as this turn leaves it
	wrote    bool
	repaired int64   // number of the row that the holder before had left out, 0 if none
	refused  []int64 // under which tokens the head had been written each time when a condition refused this turn's write
	again    bool    // the last write was refused, and the head has not been read since
}

const headID = "head"

// ledger is the two collections. The handles are majority and primary whatever the URI says.
type ledger struct{ head, rows *mongo.Collection }

func openLedger(db *mongo.Database, prefix string) ledger {
	return ledger{head: queue.Pinned(db, prefix+"head"), rows: queue.Pinned(db, prefix+"ledger")}
}

// create makes an empty ledger.
func (l ledger) create(ctx context.Context) error {
	empty := head{}
	_, err := l.head.UpdateByID(ctx, headID, bson.D{{Key: "$setOnInsert", Value: empty}}, options.UpdateOne().SetUpsert(true))
	return err
}

// all reads the ledger in the order of the numbers.
func (l ledger) all(ctx context.Context) ([]Row, error) {
	cur, err := l.rows.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return nil, err
	}
	rows := []Row{}
	return rows, cur.All(ctx, &rows)
}

func (l ledger) readHead(ctx context.Context) (h head, err error) {
	ctx, cancel := context.WithTimeout(ctx, opLimit)
	defer cancel()
	return h, l.head.FindOne(ctx, bson.D{{Key: "_id", Value: headID}}).Decode(&h)
}

// lastNumber is the number of the last row, 0 in an empty ledger.
func (l ledger) lastNumber(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, opLimit)
	defer cancel()
	var r Row
	err := l.rows.FindOne(ctx, bson.D{}, options.FindOne().SetSort(bson.D{{Key: "_id", Value: -1}})).Decode(&r)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, nil
	}
	return r.Number, err
}

const (
	opLimit = 5 * time.Second
	// A failed call is repeated after this, as long as the lock is held.
	retryPause = 50 * time.Millisecond
)

// errCorrupt: the ledger is in a state that no holder leaves behind. Nothing is repeated after it.
var errCorrupt = errors.New("ledger is corrupt")

// turn writes the next row, if lines are left and n is below limit. held is the lock's Err: it is asked right before each
// write, and when it is not nil the turn ends with it. between runs after the commit and before the row's insert.
//
// Calls that fail are repeated: after a failed commit the head is read again, and shows by its token whether the commit
// was done after all.
func (l ledger) turn(ctx context.Context, in []Invoice, limit int64, by writer, held func() error, between func()) (o outcome, err error) {
	for {
		if err := held(); err != nil {
			return o, err
		}
		again, err := l.attempt(ctx, in, limit, by, held, between, &o)
		if err == nil && !again {
			return o, nil
		}
		if errors.Is(err, errCorrupt) || errors.Is(err, errFenced) || ctx.Err() != nil {
			return o, err
		}
		if err != nil {
			select {
			case <-time.After(retryPause):
			case <-ctx.Done():
			}
		}
	}
}

func (l ledger) attempt(ctx context.Context, in []Invoice, limit int64, by writer, held func() error, between func(), o *outcome) (again bool, err error) {
	h, err := l.readHead(ctx)
	if err != nil {
		return false, err
	}
	if o.again || h.Token > by.token {
		o.refused, o.again = append(o.refused, h.Token), false
	}
	if h.Token > by.token {
		// Somebody was granted the lock after us, so we have lost it, whether or not we know yet (L1).
		return false, fmt.Errorf("token %d is behind the head's %d: %w", by.token, h.Token, errFenced)
	}
	if err := l.complete(ctx, &h, held, o); err != nil {
		return false, err
	}
	o.n = h.N
	if h.Token == by.token {
		o.wrote = true // by an attempt whose reply was lost
		return false, nil
	}
	if h.N >= min(limit, int64(len(in))) {
		return false, nil
	}
	row := h.next(in[h.N], by)
	if err := held(); err != nil {
		return false, err
	}
	done, err := l.commit(ctx, &h, &row)
	if err != nil {
		return false, err
	}
	if !done {
		o.again = true
		return true, nil
	}
	between()
	o.n, o.wrote = row.Number, true
	return false, l.insert(ctx, &row)
}

// errFenced ends a turn whose token is too small.
var errFenced = errors.New("fenced")

// complete inserts the row of the head if the one who wrote the head did not (L2).
func (l ledger) complete(ctx context.Context, h *head, held func() error, o *outcome) error {
	last, err := l.lastNumber(ctx)
	switch {
	case err != nil:
		return err
	case last == h.N:
		return nil
	case last != h.N-1 || h.Last == nil:
		// A last row beyond the head can only mean that the head was read earlier than a late holder's commit, which the
		// commit's condition will find; but rows missing before the last are nobody's doing.
		if last > h.N {
			return nil
		}
		return fmt.Errorf("%w: the head is at %d, the last row is %d", errCorrupt, h.N, last)
	}
	if err := held(); err != nil {
		return err
	}
	if err := l.insert(ctx, h.Last); err != nil {
		return err
	}
	o.repaired = h.N
	return nil
}

// commit moves the head from h to row, unless it has moved (L1).
func (l ledger) commit(ctx context.Context, h *head, row *Row) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, opLimit)
	defer cancel()
	res, err := l.head.UpdateOne(ctx,
		bson.D{
			{Key: "_id", Value: headID}, {Key: "n", Value: h.N}, {Key: "hash", Value: h.Hash},
			{Key: "token", Value: bson.D{{Key: "$lt", Value: row.Token}}},
		},
		bson.D{{Key: "$set", Value: head{N: row.Number, Total: row.Total, Hash: row.Hash, Token: row.Token, Last: row}}})
	if err != nil {
		return false, err
	}
	return res.MatchedCount == 1, nil
}

// insert writes a row that the head has, and is done also when it is there already.
func (l ledger) insert(ctx context.Context, row *Row) error {
	ctx, cancel := context.WithTimeout(ctx, opLimit)
	defer cancel()
	_, err := l.rows.InsertOne(ctx, row)
	if !mongo.IsDuplicateKeyError(err) {
		return err
	}
	var there Row
	if err := l.rows.FindOne(ctx, bson.D{{Key: "_id", Value: row.Number}}).Decode(&there); err != nil {
		return err
	}
	if there != *row {
		return fmt.Errorf("%w: row %d is %+v, the head has %+v", errCorrupt, row.Number, there, *row)
	}
	return nil
}
