package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	o, err := parse([]string{"-out", out})
	require.NoError(t, err)
	require.Equal(t, []int{2, 8, 32, 128, 256}, o.sizes)
	require.False(t, o.does("recipes"))
	require.True(t, o.does("idle"))

	o, err = parse([]string{"-only", "pair,recipes", "-sizes", "2, 8"})
	require.NoError(t, err)
	require.Equal(t, []int{2, 8}, o.sizes)
	require.Empty(t, o.out, "a part does not replace the results of the whole")
	require.True(t, o.does("recipes"))
	require.False(t, o.does("idle"))

	o, err = parse([]string{"-long", "-out", out})
	require.NoError(t, err)
	require.True(t, o.does("recipes"))

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-sizes", "2,x"}, `-sizes "2,x" must be numbers from 1 to 512, separated by commas`},
		{[]string{"-sizes", "0"}, `-sizes "0" must be`},
		{[]string{"-sizes", "513"}, `-sizes "513" must be`},
		{[]string{"-window", "10ms"}, "-window 10ms must be from 1s to 10m"},
		{[]string{"-only", "speed"}, `-only "speed" must be one or more of pair,`},
		{[]string{"-out", "/proc/none"}, `-out "/proc/none" must be a folder`},
		{[]string{"all"}, `argument "all": there are none, only flags`},
	} {
		_, err := parse(c.args)
		require.ErrorContains(t, err, c.want)
	}
}
