package demo

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCents(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Cents{
		"0": 0, "12": 1200, "12.5": 1250, "12.50": 1250, "-0.05": -5, "0.07": 7, "0012.01": 1201,
		"1000000000000": mostCents, "-1000000000000.00": -mostCents, "4503599627370.49": 450359962737049, // beyond, see below
	} {
		got, err := ParseCents(s)
		if want > mostCents {
			require.Error(t, err, s)
			continue
		}
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{
		"", "-", ".", "1.", ".5", "1.234", "1,5", "1 000", "1e3", "+1", "--1", "NaN", "0x10", "1_000", "١", "1.-5", "1.2.3",
		"1000000000000.01", "99999999999999999999999",
	} {
		_, err := ParseCents(s)
		require.Error(t, err, s)
	}
	require.Equal(t, "-0.05", Cents(-5).String())
	require.Equal(t, "12.30", Cents(1230).String())
	require.Equal(t, "-92233720368547758.08", Cents(-1<<63).String())
}

func TestReadInvoices(t *testing.T) {
	t.Parallel()
	got, err := ReadInvoices("x", strings.NewReader("\ufeffcustomer,amount\r\nA,1.5\r\n\r\n\"B, \"\"the\"\" second\", -2 \r\n"))
	require.NoError(t, err)
	require.Equal(t, []Invoice{{"A", 150}, {`B, "the" second`, -200}}, got)

	for name, c := range map[string]struct {
		in   string
		line int
		says string
	}{
		"empty":          {"", 0, "is empty"},
		"only a BOM":     {"\ufeff", 0, "is empty"},
		"only a header":  {"customer,amount\n", 0, "no invoice"},
		"no header":      {"A,1\n", 1, "must be customer,amount"},
		"long header":    {strings.Repeat("x", 5000) + "\n", 1, "..."},
		"too many":       {"customer,amount\nA,1\nB,2,3\n", 3, "has 3 fields"},
		"too few":        {"customer,amount\nA\n", 2, "has 1 fields"},
		"bad amount":     {"customer,amount\nA,1\nB,2\nC,x\n", 4, `amount "x"`},
		"after a break":  {"customer,amount\n\"A\nA\",1\nC,x\n", 4, `amount "x"`},
		"no customer":    {"customer,amount\n ,1\n", 2, "customer is empty"},
		"not UTF-8":      {"customer,amount\n\xff,1\n", 2, "valid UTF-8"},
		"long customer":  {"customer,amount\n" + strings.Repeat("x", 201) + ",1\n", 2, "at most 200"},
		"open quote":     {"customer,amount\n\"A,1\n", 2, "quote"},
		"stray quote":    {"customer,amount\nA\"B,1\n", 2, "quote"},
		"total too big":  {"customer,amount\n" + strings.Repeat("A,1000000000000\n", 92234), 92235, "running total"},
		"total too low":  {"customer,amount\n" + strings.Repeat("A,-1000000000000\n", 92234), 92235, "running total"},
		"binary rubbish": {"\x00\x01\x02", 1, "header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ReadInvoices("file.csv", strings.NewReader(c.in))
			require.Nil(t, got)
			var e *InputError
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, ErrOption)
			require.Equal(t, c.line, e.Line, err)
			require.ErrorContains(t, err, c.says)
			require.Less(t, len(err.Error()), 300)
		})
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	all, err := readInput("")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), DefaultInvoices)
	_, err = readInput(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, ErrOption)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	good := Options{DB: "d", Workers: 2, Goroutines: 1, TTL: DefaultTTL, Kill: true}
	require.NoError(t, good.Validate())
	in, err := good.load()
	require.NoError(t, err)
	require.Len(t, in, DefaultInvoices)
	for flag, change := range map[string]func(*Options){
		"workers":    func(o *Options) { o.Workers = 1 },
		"goroutines": func(o *Options) { o.Goroutines = mostGoroutines + 1 },
		"invoices":   func(o *Options) { o.Invoices = -1 },
		"hold":       func(o *Options) { o.Hold = -1 },
		"ttl":        func(o *Options) { o.TTL = 1 },
		"db":         func(o *Options) { o.DB = "" },
	} {
		o := good
		change(&o)
		err := o.Validate()
		require.ErrorIs(t, err, ErrOption)
		require.ErrorContains(t, err, "--"+flag)
	}
	for _, n := range []int{1, 7, 1_000_000} {
		o := good
		o.Invoices = n
		_, err := o.load()
		require.ErrorIs(t, err, ErrOption)
		require.ErrorContains(t, err, "--invoices")
	}
}
