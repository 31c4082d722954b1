package contend

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Subcommand is the first argument by which a binary of the harness becomes a contender: it then calls [Main] with the rest.
const Subcommand = "contend"

// openLimit bounds the connecting, closeLimit each Unlock and the Close: many contenders that start or stop at one time need seconds.
const (
	openLimit  = 60 * time.Second
	closeLimit = 60 * time.Second
)

// orphanLimit is how long a contender may go on giving back when its input ended without a stop: then the harness is gone, and the servers
// that it started most likely too.
const orphanLimit = 2 * time.Second

// Main is a contender process. It returns the exit status.
func Main(kinds []Kind, args []string) int {
	// The harness alone says when to end. Ctrl-C goes to the whole group, and would end contenders before they could give back.
	signal.Ignore(os.Interrupt)
	orphaned := func() { time.AfterFunc(orphanLimit, func() { os.Exit(1) }) }
	if err := serve(kinds, args, os.Stdin, os.Stdout, orphaned); err != nil {
		fmt.Fprintln(os.Stderr, "contend:", err)
		return 1
	}
	return 0
}

type settings struct {
	kind         Kind
	target, lock string
	hold         time.Duration
	records      string
}

func parse(kinds []Kind, args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet(Subcommand, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	name := f.String("kind", "", "")
	f.StringVar(&s.target, "target", "", "")
	f.StringVar(&s.lock, "lock", "", "")
	f.DurationVar(&s.hold, "hold", 0, "")
	f.StringVar(&s.records, "records", "", "")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == *name })
	switch {
	case i < 0:
		return s, fmt.Errorf("-kind %q is none of this binary's", *name)
	case s.target == "" || s.lock == "" || s.records == "":
		return s, errors.New("-target, -lock and -records must be set")
	case s.hold < 0:
		return s, fmt.Errorf("-hold %v must not be negative", s.hold)
	}
	s.kind = kinds[i]
	return s, nil
}

// serve is the life of a contender. It calls orphaned when the input ended without a stop.
func serve(kinds []Kind, args []string, in io.Reader, out io.Writer, orphaned func()) error {
	s, err := parse(kinds, args)
	if err != nil {
		return err
	}
	file, err := os.Create(s.records)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()

	opening, cancel := context.WithTimeout(context.Background(), openLimit)
	defer cancel()
	locker, err := s.kind.Open(opening, s.target, s.lock)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.kind.Name, err)
	}
	c := &contender{hold: s.hold, locker: locker}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	if more := lines.Scan(); !more || lines.Text() != "go" {
		// Never begun: the harness is gone or has only looked at what a connection costs.
		if !more {
			orphaned()
		}
		totals, err := c.close()
		return errors.Join(err, done(out, totals))
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	before := cpu()
	var loop sync.WaitGroup
	loop.Go(func() { err = c.loop(ctx) })
	ended := make(chan struct{})
	go func() { // ends with the process, which waits for nobody who reads
		defer close(ended)
		told := false
		for !told && lines.Scan() {
			switch lines.Text() {
			case "mark":
				c.mark()
			case "stop":
				told = true
			}
		}
		if !told {
			orphaned()
		}
		stop()
	}()
	loop.Wait()
	if err != nil {
		return err
	}
	<-ended
	totals, err := c.close()
	if !totals.Marked {
		totals.CPU = cpu() - before
	}
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := write(file, c.records); err != nil {
		return err
	}
	return done(out, totals)
}

func done(out io.Writer, t Totals) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "done %s\n", text)
	return err
}

// contender is a contender that has connected.
type contender struct {
	hold    time.Duration
	locker  Locker
	records []Record // of loop

	mu    sync.Mutex // guards marks
	marks []Totals
}

// loop takes and gives back the lock until ctx ends.
func (c *contender) loop(ctx context.Context) error {
	for ctx.Err() == nil {
		r := Record{Asked: Stamp()}
		grant, err := c.locker.Lock(ctx)
		r.Queued = grant.Queued
		if err != nil {
			if ctx.Err() == nil {
				return fmt.Errorf("lock: %w", err)
			}
			c.records = append(c.records, r)
			return nil
		}
		r.Granted, r.Token = Stamp(), grant.Token
		sleep(ctx, c.hold)
		r.Unlocking = Stamp()
		if err := c.unlock(ctx); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		r.Unlocked = Stamp()
		c.records = append(c.records, r)
	}
	return nil
}

func (c *contender) unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	return c.locker.Unlock(ctx)
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (c *contender) mark() {
	counter, ok := c.locker.(Counter)
	if !ok {
		return
	}
	t := counter.Count()
	t.CPU = cpu()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks = append(c.marks, t)
}

// close ends the client. Between the first mark and the last, if there are two, the counts are those of the window.
func (c *contender) close() (Totals, error) {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	totals, err := c.locker.Close(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.marks) < 2 {
		return totals, err
	}
	first, last := c.marks[0], c.marks[len(c.marks)-1]
	totals = Totals{CPU: last.CPU - first.CPU, Commands: last.Commands - first.Commands, Other: map[string]int64{}, Marked: true}
	for name, n := range last.Other {
		totals.Other[name] = n - first.Other[name]
	}
	return totals, err
}

// write writes the records in the format that [ReadRecords] reads.
func write(file *os.File, records []Record) error {
	w := bufio.NewWriter(file)
	if err := binary.Write(w, binary.LittleEndian, records); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// ReadRecords reads what a contender has written.
func ReadRecords(path string) ([]Record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	size := binary.Size(Record{})
	if len(data)%size != 0 {
		return nil, fmt.Errorf("contend: %s has %d bytes, not a multiple of %d", path, len(data), size)
	}
	records := make([]Record, len(data)/size)
	_, err = binary.Decode(data, binary.LittleEndian, records)
	return records, err
}

// cpu is the user and system time of this process.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
