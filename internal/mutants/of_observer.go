package mutants

func inTally(test string) Catch { return Catch{Pkg: "internal/tally", Test: test} }

func inObserver(test string) Catch { return Catch{Pkg: ".", Test: test} }

var ofObserver = []Mutant{
	{
		"observer-loss-stays-held", "lock.go", "a lock that is lost counts as held for ever", "Stats.Held goes back to 0",
		[]Edit{{`		m.stats.lost.Add(1)
		l.countLocked(-1)
`, `		m.stats.lost.Add(1)
`}}, inObserver("TestObserverOfALoss"),
	},
	{
		"observer-undone-stays-held", "lock.go", "what LockAll gives back counts as held for ever", "Stats.Held goes back to 0",
		[]Edit{{`		l.countLocked(-1)
		l.endHoldLocked(l.line.m.clock.Now(), nil)
`, `		l.endHoldLocked(l.line.m.clock.Now(), nil)
`}}, inObserver("TestObserverOfALockThatItsCallerNeverGot"),
	},
	{
		"observer-undone-not-told", "lock.go", "what LockAll gives back has no end", "each granted lock has one Ended",
		[]Edit{{`		l.endHoldLocked(l.line.m.clock.Now(), nil)
`, ``}}, inTally("TestUsage"),
	},
	{
		"observer-undone-as-unlocked", "observing.go", "what LockAll gives back is told as if somebody had called Unlock", "how long nobody waited is no time",
		[]Edit{{`, Undone: lost == nil}`, `}`}}, inObserver("TestObserverOfALockThatWasUndone"),
	},
	{
		"observer-early-loss-told-late", "observing.go", "the end of a lock that was lost before Acquired had returned is left to the manager's goroutine",
		"each granted lock has one Ended, also when Close has ended",
		[]Edit{{`		l.line.m.observing.ended(h.ctx, Ended{Acquired: h.of, Held: max(at.Sub(h.since), 0), Err: lost})
`, `		b := l.line.m.observing
		b.tell(func() { b.ended(h.ctx, Ended{Acquired: h.of, Held: max(at.Sub(h.since), 0), Err: lost}) })
`}}, inObserver("TestObserverOfAGrantThatCloseTakes"),
	},
	{
		"observer-early-loss-not-told", "observing.go", "a lock that was lost before Acquired had returned has no end", "each granted lock has one Ended",
		[]Edit{{`	if lost != nil {
		l.line.m.observing`, `	if false {
		l.line.m.observing`}}, inObserver("TestObserverOfALossBeforeTheGrantIsTold"),
	},
	{
		"observer-handing-is-holding", "observing.go", "the time of Unlock counts as held", "Held is to the call of Unlock",
		[]Edit{{`Held: over.Sub(h.since), Handed:`, `Held: b.m.clock.Now().Sub(h.since), Handed:`}}, inObserver("TestEndedFollowsTheHandOver"),
	},
	{
		"observer-ended-before-handing", "lock.go", "Ended is told before the lock is handed on", "an observer that is slow delays no other call",
		[]Edit{{`	if first {
		var s *settling
		if !l.delayed()`, `	if h != nil {
		l.line.m.observing.unlocked(h, over, nil)
		h = nil
	}
	if first {
		var s *settling
		if !l.delayed()`}}, Catch{Pkg: ".", Test: "TestEndedFollowsTheHandOver", Says: "the call has not returned"},
	},
	{
		"observer-sweep-is-told", "acquire.go", "the manager's own lock is told of like a user's", "what the manager locks for itself is nobody's business",
		[]Edit{{`if m.observing == nil || name == sweepName {`, `if m.observing == nil {`}}, inObserver("TestObserverKindsAndUnits"),
	},
	{
		"observer-deadline-of-a-call", "observer.go", "a call that fails by the deadline of a database call counts as timeout", "timeout is the caller's own",
		[]Edit{{`	case gaveUp != nil:
`, `	case gaveUp != nil, errors.Is(a.Err, context.DeadlineExceeded):
`}}, inObserver("TestObserverOfADatabaseThatDoesNotAnswer"),
	},
	{
		"observer-writer-is-1024", "observer.go", "a writer is told of with all units of the read/write lock", "units are those that were asked for",
		[]Edit{{`	if d.shape.Kind == queue.KindSemaphore {
		return d.units
	}
	return 1`, `	if d.shape.Kind != queue.KindMutex {
		return d.units
	}
	return 1`}}, inObserver("TestObserverKindsAndUnits"),
	},
	{
		"observer-too-big-not-told", "semaphore.go", "a call for more than there are is refused before anybody is told of it", "Acquired follows each call whose name and options are valid",
		[]Edit{{`	o.ask = demand{s.shape, n}
`, `	o.ask = demand{s.shape, n}
	if err := s.m.fits(ctx, s.name, o.ask); err != nil {
		return nil, err
	}
`}}, inObserver("TestObserverOfTooMuch"),
	},
	{
		"observer-renewals-wait", "observing.go", "the lease waits for an observer that is busy", "no observer can stop a manager",
		[]Edit{{`{ b.tell(func() { b.o.Renewed(Renewed{Took: took, Err: err}) }) }`, `{ b.o.Renewed(Renewed{Took: took, Err: err}) }`}}, Catch{Pkg: ".", Test: "TestSlowObserver", Says: "test hangs"},
	},
	{
		"observer-drops-unseen", "observing.go", "what an observer is too slow for is not counted", "what is not told is known",
		[]Edit{{`	default:
		b.m.stats.unobserved.Add(1)
`, `	default:
`}}, Catch{Pkg: ".", Test: "TestSlowObserver", Says: `"0" is not greater than "9"`},
	},
	{
		"observer-panic-goes-through", "observing.go", "a panic of an observer goes through the caller", "no observer can stop a manager",
		[]Edit{{`	first := guard(f)
`, `	var first *panicked
	f()
`}}, Catch{Pkg: ".", Test: "TestPanickingObserver", Says: "(*observing).safely"},
	},
	{
		"observer-panic-of-another", "observers.go", "of several observers those after one that panics hear nothing", "one that panics costs the others nothing",
		[]Edit{{`		first := guard(func() { a(ctx, v) })
		first.and(guard(func() { b(ctx, v) })).again()`, `		a(ctx, v)
		b(ctx, v)`}}, inObserver("TestOneOfSeveralObserversPanics"),
	},
	{
		"observer-panic-loses-context", "observers.go", "with a panic goes what the others have made of the context", "one that panics costs the others nothing",
		[]Edit{{`			ctx = orElse(first.ctx, ctx)
`, `			ctx = orElse(nil, ctx)
`}}, inObserver("TestOneOfSeveralObserversPanics"),
	},
	{
		"observer-close-drops", "observing.go", "Close does not wait for what was told before", "what happened before Close is told",
		[]Edit{{`			for len(b.events) > 0 {
				b.safely(<-b.events)
			}
`, ``}}, inObserver("TestSlowObserver"),
	},
	{
		"observer-user-panic-keeps-lock", "acquire.go", "a function of the user's that panics leaves its place in line", "a lock is not granted to nobody",
		[]Edit{{`		if !returned {
			_ = l.abandon(c)
		}`, `		_ = returned`}}, inObserver("TestUsersFunctionEndsTheCall"),
	},
	{
		"observer-user-panic-keeps-set", "set.go", "a panic at one name of LockAll leaves the others held", "on anything but success nothing is held",
		[]Edit{{`		if !all { // also when a function of the user's has panicked
			s.giveUp()
		}`, `		_ = all`}}, inObserver("TestObserverOfASetWhoseCallerIsGone"),
	},
	{
		"observer-failed-renewals", "reaper/lease.go", "only renewals that succeed are told of", "an alert is about those that fail",
		[]Edit{{`l.cfg.Renewed != nil && (r.err == nil || ctx.Err() == nil)`, `l.cfg.Renewed != nil && r.err == nil`}}, inObserver("TestObserverOfALoss"),
	},
	{
		"tally-closed-twice", "internal/tally/tally.go", "a manager that is closed twice counts twice", "counters are what happened",
		[]Edit{{`	if _, ok := t.live[m]; !ok {
		return
	}
`, ``}}, inTally("TestSum"),
	},
	{
		"tally-arrivals-go-down", "internal/tally/tally.go", "grants by arrival are what the other counts leave at the moment", "counters never go down",
		[]Edit{{`t.arrivals = max(t.arrivals, s.Grants-`, `t.arrivals = max(0, s.Grants-`}}, inTally("TestArrivalsNeverGoDown"),
	},
	{
		"tally-forgets-the-closed", "internal/tally/tally.go", "with a manager go its counts", "counters never go down",
		[]Edit{{`	add(&t.past, s)
`, ``}}, inTally("TestSum"),
	},
}
