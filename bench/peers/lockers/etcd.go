package lockers

import (
	"context"
	"errors"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/bench/contend"
)

// etcdDial bounds the first connecting, as etcd's own examples do.
const etcdDial = 5 * time.Second

// EtcdMutex is the Mutex of go.etcd.io/etcd/client/v3/concurrency on one session (lease 60 s, the default) of one client that knows all
// members.
func EtcdMutex() contend.Kind {
	return contend.Kind{Name: "etcd-mutex", Server: "etcd", Open: func(ctx context.Context, target, lock string) (contend.Locker, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(target, ","), DialTimeout: etcdDial})
		if err != nil {
			return nil, err
		}
		session, err := concurrency.NewSession(client)
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		return &etcdMutex{client: client, session: session, mutex: concurrency.NewMutex(session, "/bench/"+lock)}, nil
	}}
}

type etcdMutex struct {
	client  *clientv3.Client
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

// Lock's token is the store's revision when the grant was read. It increases: between two grants lies the deletion of the first one's key,
// which is a revision.
func (l *etcdMutex) Lock(ctx context.Context) (contend.Grant, error) {
	if err := l.mutex.Lock(ctx); err != nil {
		return contend.Grant{}, err
	}
	return contend.Grant{Token: l.mutex.Header().Revision}, nil
}

func (l *etcdMutex) Unlock(ctx context.Context) error { return l.mutex.Unlock(ctx) }

func (l *etcdMutex) Close(context.Context) (contend.Totals, error) {
	return contend.Totals{}, errors.Join(l.session.Close(), l.client.Close())
}
