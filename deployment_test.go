package fairlock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeployments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hello       hello
		clusterTime bool
		err         string
	}{
		"replica set 5.0": {hello: hello{SetName: "rs", MaxWire: 13}, clusterTime: true},
		"mongos":          {hello: hello{Msg: "isdbgrid", MaxWire: 17}, clusterTime: true},
		"standalone":      {hello: hello{MaxWire: 17}},
		"4.4":             {hello: hello{SetName: "rs", MaxWire: 9}, err: "MongoDB 5.0 or newer is needed (wire version 13), this server speaks wire version 9"},
	} {
		clusterTime, err := c.hello.judge()
		if c.err != "" {
			require.ErrorIs(t, err, ErrServer, name)
			require.ErrorContains(t, err, c.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.clusterTime, clusterTime, name)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"Config.TTL is 500ms: must be from 1s to 1h":                            {TTL: 500e6},
		"Config.TTL is 2h0m0s":                                                  {TTL: 7200e9},
		"Config.Margin is 16s: must be positive and at most half of TTL 30s":    {Margin: 16e9},
		"Config.Margin is -1ns":                                                 {Margin: -1},
		"Config.OpTimeout is 1s: must be from 2.5s to 1m":                       {OpTimeout: 1e9},
		"Config.PollInterval is 1ms: must be from 5ms to 10s":                   {PollInterval: 1e6},
		"Config.TicketDelay is 2s":                                              {TicketDelay: 2e9},
		"Config.TicketDelay is 500ms: must be from 0 to 1s and at most a quart": {TTL: 1e9, TicketDelay: 500e6},
		`Config.Prefix is "a$b"`:                                                {Prefix: "a$b"},
		`Config.Prefix is "system."`:                                            {Prefix: "system."},
		"Label is ":                                                             {Label: "\xff"},
	} {
		_, err := cfg.withDefaults()
		require.ErrorIs(t, err, ErrInvalidOption, want)
		require.ErrorContains(t, err, want)
	}
	full, err := (*Config)(nil).withDefaults()
	require.NoError(t, err)
	require.Equal(t, full.TTL/10, full.Margin)
	require.NotNil(t, full.Logger)
	require.NotEmpty(t, full.Label)
}
