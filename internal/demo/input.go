package demo

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

//go:embed sample.csv
var sample []byte

// Cents is an amount of money, exact.
type Cents int64

// String is the amount as it stands in the input: 12.30.
func (c Cents) String() string {
	sign, u := "", uint64(c)
	if c < 0 {
		sign, u = "-", -u
	}
	return fmt.Sprintf("%s%d.%02d", sign, u/100, u%100)
}

// mostCents bounds one amount, a thousand billions.
const mostCents = 1e14

// ParseCents reads a decimal number with at most two decimals. It does not round, and takes no thousands
// separators: what is not understood exactly is refused.
func ParseCents(s string) (Cents, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, part, point := strings.Cut(digits, ".")
	if point && (len(part) == 0 || len(part) > 2) || whole == "" || !isDigits(whole) || !isDigits(part) {
		return 0, fmt.Errorf("amount %q must be like 12, 12.5 or -12.50", clip(s))
	}
	for len(part) < 2 {
		part += "0"
	}
	n, err := strconv.ParseInt(whole+part, 10, 64)
	if err != nil || n > mostCents {
		return 0, fmt.Errorf("amount %q must be at most %v", clip(s), Cents(mostCents))
	}
	if negative {
		n = -n
	}
	return Cents(n), nil
}

func isDigits(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// Invoice is one line of the input.
type Invoice struct {
	Customer string `json:"c"`
	Amount   Cents  `json:"a"`
}

// InputError is a fault of the input file, with the line it is in.
type InputError struct {
	File string
	Line int // 0: the file as a whole
	Err  error
}

func (e *InputError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s: line %d: %v", e.File, e.Line, e.Err)
}

func (e *InputError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrOption) true: the input is an argument of the user's.
func (e *InputError) Is(target error) bool { return target == ErrOption }

// readInput reads the file, or the sample when path is empty.
func readInput(path string) ([]Invoice, error) {
	if path == "" {
		return ReadInvoices("the sample", bytes.NewReader(sample))
	}
	file, err := os.Open(path)
	if err != nil {
		if p := (*os.PathError)(nil); errors.As(err, &p) {
			err = p.Err // the path is said already
		}
		return nil, &InputError{File: path, Err: err}
	}
	defer func() { _ = file.Close() }() // it was only read
	return ReadInvoices(path, file)
}

const mostCustomer = 200

// ReadInvoices reads CSV with the header customer,amount. All of it is checked before anything is done with any of it. name is
// for messages.
func ReadInvoices(name string, from io.Reader) ([]Invoice, error) {
	fault := func(line int, err error) error {
		if p := (*csv.ParseError)(nil); errors.As(err, &p) {
			line, err = p.Line, p.Err
		}
		return &InputError{File: name, Line: line, Err: err}
	}
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, fault(0, err)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // spreadsheets write one
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = -1 // counted below, with a message that says what is expected
	head, err := r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fault(0, errors.New("is empty; want the header customer,amount and a line for each invoice"))
	case err != nil:
		return nil, fault(0, err)
	case len(head) != 2 || strings.TrimSpace(head[0]) != "customer" || strings.TrimSpace(head[1]) != "amount":
		return nil, fault(1, fmt.Errorf("the header is %q, must be customer,amount", clip(strings.Join(head, ","))))
	}
	var all []Invoice
	total := Cents(0)
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fault(0, err)
		}
		line, _ := r.FieldPos(0)
		if len(rec) != 2 {
			return nil, fault(line, fmt.Errorf("has %d fields, must have 2: customer,amount", len(rec)))
		}
		inv := Invoice{Customer: strings.TrimSpace(rec[0])}
		if inv.Amount, err = ParseCents(strings.TrimSpace(rec[1])); err != nil {
			return nil, fault(line, err)
		}
		switch {
		case inv.Customer == "":
			return nil, fault(line, errors.New("the customer is empty"))
		case !utf8.ValidString(inv.Customer) || len(inv.Customer) > mostCustomer:
			return nil, fault(line, fmt.Errorf("customer %q must be valid UTF-8 of at most %d bytes", clip(inv.Customer), mostCustomer))
		case inv.Amount > 0 && total > math.MaxInt64-inv.Amount || inv.Amount < 0 && total < math.MinInt64-inv.Amount:
			return nil, fault(line, errors.New("the running total is beyond what 64 bits hold"))
		}
		total += inv.Amount
		all = append(all, inv)
	}
	if len(all) == 0 {
		return nil, fault(0, errors.New("has a header and no invoice"))
	}
	return all, nil
}

// clip keeps bad input from filling a terminal.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
