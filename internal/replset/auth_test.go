//go:build linux || darwin

package replset_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fairlock/fairlock/internal/replset"
)

// TestSecureSet: nobody gets in without TLS, without a password, or by an authority that is not the set's; users made by the
// administrator do; and the means to hurt the set work as on any other.
func TestSecureSet(t *testing.T) {
	t.Parallel()
	ctx := testCtx(t)
	s, err := replset.Start(ctx, replset.Options{ElectionTimeout: 2 * time.Second, Secure: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })

	c := collection(t, s.URI())
	insert(t, c, 1)
	err = c.Database().RunCommand(ctx, bson.D{
		{Key: "createUser", Value: "u"}, {Key: "pwd", Value: "p /:@"}, {Key: "roles", Value: bson.A{"readWrite"}},
	}).Err()
	require.NoError(t, err)
	insert(t, collection(t, s.URIFor("u", "p /:@", "replset_test")), 2)

	refused := func(what string, o *options.ClientOptions) {
		t.Helper()
		client, err := mongo.Connect(o.SetServerSelectionTimeout(time.Second).SetTimeout(5 * time.Second))
		require.NoError(t, err)
		defer func() { _ = client.Disconnect(ctx) }()
		_, err = client.Database("replset_test").Collection("c").InsertOne(ctx, bson.D{{Key: "_id", Value: what}})
		require.Error(t, err, what)
	}
	refused("another password", options.Client().ApplyURI(s.URIFor("u", "other", "replset_test")))
	hosts := options.Client().ApplyURI(s.URI()).Hosts
	refused("no TLS", options.Client().SetHosts(hosts).SetReplicaSet("fairlock"))
	refused("no password", options.Client().SetHosts(hosts).SetReplicaSet("fairlock").
		SetTLSConfig(options.Client().ApplyURI(s.URI()).TLSConfig))
	refused("another authority", func() *options.ClientOptions {
		o := options.Client().ApplyURI(s.URI())
		o.TLSConfig.RootCAs = nil
		return o
	}())

	p, err := s.WaitPrimary(ctx)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	_, err = s.WaitPrimary(ctx)
	require.NoError(t, err)
	require.NoError(t, p.Restart(ctx))
	require.NoError(t, s.WaitHealthy(ctx))
	require.NoError(t, s.StepDown(ctx, 5))
	insert(t, c, 3)
	require.FileExists(t, s.CAFile())

	_, err = replset.Start(ctx, replset.Options{Standalone: true, Secure: true})
	require.True(t, errors.Is(err, replset.ErrOptions))
}
