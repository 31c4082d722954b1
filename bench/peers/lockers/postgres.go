package lockers

import (
	"context"
	"errors"
	"hash/fnv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/bench/contend"
)

// PGAdvisory is a session's advisory lock of PostgreSQL, through pgx: pg_advisory_lock and pg_advisory_unlock, two statements for each
// acquisition, which the client counts.
func PGAdvisory() contend.Kind {
	return contend.Kind{Name: "pg-advisory", Server: "postgres", Open: func(ctx context.Context, target, lock string) (contend.Locker, error) {
		conn, err := pgx.Connect(ctx, target)
		if err != nil {
			return nil, err
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(lock)) // never fails
		return &pgAdvisory{conn: conn, key: int64(h.Sum64())}, nil
	}}
}

type pgAdvisory struct {
	conn       *pgx.Conn
	key        int64
	statements atomic.Int64
}

func (l *pgAdvisory) Lock(ctx context.Context) (contend.Grant, error) {
	l.statements.Add(1)
	_, err := l.conn.Exec(ctx, "select pg_advisory_lock($1)", l.key)
	return contend.Grant{}, err
}

func (l *pgAdvisory) Unlock(ctx context.Context) error {
	l.statements.Add(1)
	var held bool
	if err := l.conn.QueryRow(ctx, "select pg_advisory_unlock($1)", l.key).Scan(&held); err != nil {
		return err
	}
	if !held {
		return errors.New("pg-advisory: the lock was not held")
	}
	return nil
}

// Count implements [contend.Counter].
func (l *pgAdvisory) Count() contend.Totals { return contend.Totals{Commands: l.statements.Load()} }

// Close also ends a wait that was cancelled: the server frees a session's locks with the session.
func (l *pgAdvisory) Close(ctx context.Context) (contend.Totals, error) {
	return l.Count(), l.conn.Close(ctx)
}
