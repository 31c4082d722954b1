package mutants

func inRoot(test string) Catch { return Catch{Pkg: ".", Test: test} }

var ofRoot = []Mutant{
	// Arrivals.
	{
		"new-mark-for-a-repeat", "line.go", "an arrival without a reply is sent again as another one", "a repeated arrival issues once (I1)",
		[]Edit{{`		place, err := send(ctx, a)
`, `		a.Mark++
		place, err := send(ctx, a)
`}}, inRoot("TestEnqueueWithoutReplyIsRepeatedOnce"),
	},
	{
		"arrival-given-up", "line.go", "an arrival without a reply is not repeated", "an unknown outcome is neither success nor failure",
		[]Edit{{`if m.clock.Now() >= giveUp || !m.pause(retryPause) {`, `if m.clock.Now() >= min(giveUp, 0) || !m.pause(retryPause) {`}}, inRoot("TestEnqueueWithoutReplyIsRepeatedOnce"),
	},
	{
		"two-at-a-time", "line.go", "a second enqueue is sent while one is on its way", "number order is call order",
		[]Edit{{`	if l.asking {
		return
	}
	batch`, `	batch`}}, inRoot("TestEnqueueThatHangs"),
	},
	{
		"batch-backwards", "line.go", "the numbers of a batch are given out from the last call to the first", "number order is call order",
		[]Edit{{`	at := place.Lo
`, `	at := place.Lo
	slices.Reverse(batch)
`}}, inRoot("TestLocalHandOver"),
	},
	{
		"mixed-weights", "line.go", "a batch takes claims of different weights", "a ticket tells one weight; the numbers are those that were asked for (I4)",
		[]Edit{{`if len(batch) > 0 && (c.units != batch[0].units ||`, `if len(batch) > 0 && (c.units < 0 ||`}}, inRoot("TestBatchesAreOfOneWeight"),
	},
	{
		"requeued-backwards", "line.go", "calls that queue again do so in the opposite order", "those who lost their place keep their order",
		[]Edit{{`cmp.Compare(a.call, b.call)`, `cmp.Compare(b.call, a.call)`}}, inRoot("TestRequeuedInTheOrderOfTheirCalls"),
	},
	{
		"runs-over-others", "line.go", "a run goes on over the numbers of other processes", "inside a run there are no numbers of others (I5)",
		[]Edit{{`last.Hi+1 == a.Lo && last.lease`, `last.Hi < a.Lo && last.lease`}}, inRoot("TestLineAgainstModel"),
	},
	{
		"asks-without-trust", "session.go", "numbers are asked for under a lease that has lapsed", "numbers that could not be trusted are not asked for",
		[]Edit{{`if !lease.Trusted(lease.Term()) {`, `if lease.State() == reaper.Ended {`}}, inRoot("TestNothingIsAskedForDuringALapse"),
	},
	{
		"refusal-repeated", "line.go", "what the server refuses for good is asked for again and again", "a refusal for good is told at once",
		[]Edit{{`permanent := queue.Permanent(err)`, `permanent := false`}}, inRoot("TestRefusalsForGoodFailAtOnce"),
	},
	{
		"shrinking-frontier", "line.go", "a frontier that went down is taken for an old reply", "numbers of a document that was dropped are void (I5)",
		[]Edit{{`if place.View.Frontier < before {`, `if place.View.Frontier < 0 {`}}, inRoot("TestADocumentMadeAnewWithLowerNumbers"),
	},
	{
		"ended-while-asked", "line.go", "numbers that come under a session that has ended meanwhile are kept", "an ended session is not trusted (I4); they would never be granted (I7)",
		[]Edit{{`if lease.State() == reaper.Ended {`, `if lease.State() > reaper.Ended {`}}, inRoot("TestSessionEndedWhileAsked"),
	},

	// Giving up.
	{
		"cancel-forgets-to-settle", "acquire.go", "a call that is given up while it waits leaves its number", "every number is settled in the end (I6)",
		[]Edit{{`	case queued:
		l.release(c)`, `	case queued:
		c.move(over)
		l.m.unref(l)`}}, inRoot("TestAbandon"),
	},
	{
		"cancel-of-a-grant", "acquire.go", "a grant that comes as the call is given up is kept", "every number is settled in the end (I6)",
		[]Edit{{`		c.lock.discard()
		l.release(c)`, `		c.lock.discard()`}}, inRoot("TestAbandonHeld"),
	},
	{
		"number-for-nobody", "line.go", "numbers that come after their calls were given up are kept", "every number is settled in the end (I6)",
		[]Edit{{`	l.settleIdle(r)
	l.watchLocked()
}`, `	l.watchLocked()
}`}}, inRoot("TestAbandon"),
	},
	{
		"max-wait-ignored", "acquire.go", "MaxWait has no effect", "the wait ends when its limit passes",
		[]Edit{{`if o.maxWait > 0 && !try {`, `if o.maxWait > 0 && try {`}}, inRoot("TestMaxWait"),
	},
	{
		"try-waits", "acquire.go", "a try that is admitted under a broken lease is left in line", "TryLock never waits, and leaves nothing",
		[]Edit{{`if c.state != held && c.state != over {`, `if c.state == pending {`}}, inRoot("TestTryUnderALeaseThatBreaks"),
	},

	// Trust.
	{
		"ticket-never-void", "tickets.go", "a ticket counts whenever it is acknowledged", "the void rule: by then it may have been buried, settled and swept (I4)",
		[]Edit{{`case err == nil && k.m.clock.Now() < a.deadline():`, `case err == nil:`}}, inRoot("TestTicketAcknowledgedTooLate"),
	},
	{
		"ticket-without-margin", "tickets.go", "a number without a ticket is trusted for the whole grace", "trust ends Margin before a reaper can act (I4)",
		[]Edit{{`return a.sent.Add(a.line.m.cfg.TTL - a.line.m.cfg.Margin)`, `return a.sent.Add(a.line.m.cfg.TTL)`}}, inRoot("TestLateTicketLosesTheLock"),
	},
	{
		"trust-by-session-alone", "tickets.go", "a number is trusted whatever became of its ticket", "both parts of trust are needed (I4)",
		[]Edit{{`return a.ticket.ok.Load() || now < a.deadline()`, `return true`}}, inRoot("TestTimeAsleepBeforeTheTicket"),
	},
	{
		"trust-by-ticket-alone", "lock.go", "a lock is held as long as its ticket stands, whatever became of the session", "both parts of trust are needed (I4)",
		[]Edit{{`		case !l.lease.Trusted(l.term):`, `		case l.lease.State() == reaper.Ended:`}}, inRoot("TestTimeAsleep"),
	},
	{
		"granted-without-trust", "admit.go", "an admitted number is granted under a lease that has lapsed", "a grant needs the fact and the trust (I4)",
		[]Edit{{`if !lock.trusted() {`, `if lock.lease.State() == reaper.Ended {`}, {`import (
`, `import (
	"github.com/fairlock/fairlock/reaper"
`}}, inRoot("TestNothingIsGrantedDuringALapse"),
	},
	{
		"capacity-of-the-buried", "claim.go", "numbers that are not trusted count as capacity of the run", "at most permits units are trusted (I4; model mutant BUG_BURIED)",
		[]Edit{{`		if !a.trusted(now) {
			for`, `		if a.line == nil {
			for`}}, inRoot("TestBuriedNumbersAreNoCapacity"),
	},
	{
		"capacity-given-back", "claim.go", "numbers that were given back count as capacity of the run", "at most permits units are trusted (I4)",
		[]Edit{{`		n -= upTo(g)
`, `		n -= 0 * upTo(g)
`}}, inRoot("TestLineAgainstModelSeveralPermits"),
	},

	// The hold.
	{
		"max-hold-ignored", "lock.go", "MaxHold has no effect", "d after the grant the lock is lost",
		[]Edit{{`if d := l.claim.opts.maxHold; d > 0 {`, `if d := l.claim.opts.maxHold; d < 0 {`}}, inRoot("TestMaxHold"),
	},
	{
		"max-hold-by-timer-alone", "lock.go", "MaxHold is judged by its timer alone, which sleeps with the machine", "a holder stops by its own clock (I4)",
		[]Edit{{`case l.holdUntil != 0 && now >= l.holdUntil:`, `case l.holdUntil != 0 && now < 0:`}}, inRoot("TestTimeAsleep"),
	},
	{
		"extend-ignored", "lock.go", "the timer of MaxHold ends the lock although it was extended", "Extend moves the end",
		[]Edit{{`	l.holdUntil = l.line.m.clock.Now().Add(d)
	l.holdTimer.Reset(d)
	return nil`, `	l.holdTimer.Reset(d)
	return nil`}}, inRoot("TestExtend"),
	},
	{
		"no-margin-after-a-loss", "lock.go", "a lost lock gives its number back at once", "the holder has Margin to stop (I4)",
		[]Edit{{`m.after(m.cfg.rest(), func() { l.giveBack() })`, `m.after(0, func() { l.giveBack() })`}}, inRoot("TestLapse"),
	},
	{
		"never-given-back", "lock.go", "a lost lock gives its number back only when Unlock is called", "those behind wait for Margin, not for ever (I6)",
		[]Edit{{`m.after(m.cfg.rest(), func() { l.giveBack() })`, `_ = m`}}, inRoot("TestMaxHold"),
	},
	{
		"unlock-hides-the-loss", "lock.go", "Unlock returns nil when its settle finds the number settled by somebody else", "Unlock returns nil only if the lock was held until then",
		[]Edit{{`	case !s.lost:
		return s.err`, `	case !s.lost || s.err == nil:
		return s.err`}}, inRoot("TestUnlockFindsTheDocumentGone"),
	},
	{
		"unlock-does-not-wait", "lock.go", "Unlock returns before a majority has the settle", "after Unlock the next in line is admitted",
		[]Edit{{`	case s == nil:
		return nil`, `	default:
		return nil`}}, inRoot("TestUnlockRunsOn"),
	},
	{
		"context-outlives", "lock.go", "the context of a lock goes on after Unlock", "who works under it must not work beside the next holder",
		[]Edit{{`			l.cancel(ErrUnlocked)
		}
	}
	l.mu.Unlock()`, `			_ = ErrUnlocked
		}
	}
	l.mu.Unlock()`}}, inRoot("TestLockContext"),
	},
	{
		"token-of-the-batch", "lock.go", "all locks of a batch have the token of its first", "tokens grow with each holder (I5)",
		[]Edit{{`return l.claim.num.Lo }`, `return l.from.Lo }`}}, inRoot("TestLocalHandOver"),
	},

	// Tickets.
	{
		"ticket-left", "tickets.go", "the ticket of settled numbers is not deleted", "after quiet there is no ticket (I8)",
		[]Edit{{`ids = append(ids, a.id())
		}
		a.ticket.state = finished`, `_ = a.id()
		}
		a.ticket.state = finished`}}, inRoot("TestAbandon"),
	},
	{
		"late-ticket-left", "tickets.go", "a ticket that is written after its numbers were settled is not deleted", "after quiet there is no ticket (I8)",
		[]Edit{{`	case gone:
		k.drop([]queue.TicketID{a.id()})
	case err == nil:`, `	case gone:
	case err == nil:`}}, inRoot("TestAbandon"),
	},
	{
		"tombstone-kept-quiet", "tickets.go", "a ticket that was deleted and then buried goes on being trusted", "a tombstone is evidence against the owner too (I3)",
		[]Edit{{`	case errors.Is(err, queue.ErrTombstone):
		k.mu.Lock()`, `	case errors.Is(err, errLateTicket):
		k.mu.Lock()`}}, inRoot("TestTicketBuriedAfterItStood"),
	},
	{
		"short-holds-write-tickets", "tickets.go", "every acquisition writes a ticket at once", "an uncontended pair is two writes",
		[]Edit{{`wait := a.sent.Add(delay).Sub(now)`, `wait := a.sent.Add(0 * delay).Sub(now)`}}, inRoot("TestShortHoldsWriteNoTicket"),
	},

	// The audit.
	{
		"audit-blind-to-locks", "audit.go", "what is held is not compared with the lock documents", "a holder finds out what others did",
		[]Edit{{`			m.auditLocks(ctx, names)
`, `			_ = names
`}}, inRoot("TestSettledByOthers"),
	},
	{
		"ticket-not-restored", "audit.go", "a ticket that somebody deleted is not written again", "a number without a ticket is taken for an orphan",
		[]Edit{{`			m.tickets.restore(a)
`, `			_ = a
`}}, inRoot("TestTicketsDroppedAreWrittenAgain"),
	},
	{
		"strange-ticket-left", "audit.go", "a ticket of this session that nothing here stands behind is left", "every number is settled in the end (I6)",
		[]Edit{{`				m.clearLeft(&tickets[i])
`, `				_ = m.clearLeft
`}}, inRoot("TestTicketsThatNobodyStandsBehind"),
	},

	// The end.
	{
		"close-does-not-settle", "lines.go", "Close leaves the numbers of its lines", "after Close the next in line goes on at once",
		[]Edit{{`	l.m.settle(l.newSettling(r, r.open(), r.arrivals))
}`, `	_ = l.newSettling(r, r.open(), r.arrivals)
}`}}, inRoot("TestClose"),
	},
	{
		"close-leaves-the-session", "manager.go", "Close leaves the session to its lease", "after Close nothing is left (I8)",
		[]Edit{{`err = m.sessions.Remove(ctx, lease.ID())`, `err = ctx.Err()`}}, inRoot("TestClose"),
	},
	{
		"granted-after-close", "line.go", "a number that comes while Close is under way is granted", "nothing is granted after Close",
		[]Edit{{`	a.pass()
	if l.m.isClosed() {`, `	a.pass()
	if l.m == nil {`}}, inRoot("TestCloseInFlight"),
	},
	{
		"close-keeps-the-holder", "lines.go", "a lock that is held at Close is not told", "what is held is lost with LostClosed",
		[]Edit{{`			c.lock.lose(LostClosed)
`, ``}}, inRoot("TestCloseWhileHolding"),
	},
	{
		"lines-leak", "lines.go", "lines of locks that nobody uses are kept", "a process keeps nothing of the names it has locked",
		[]Edit{{`if l.refs--; l.refs == 0 {`, `if l.refs--; l.refs < 0 {`}}, inRoot("TestNothingIsKeptOfNames"),
	},

	// What the main files of admission say: admit.go, settle.go, void.go.
	{
		"passed-over-is-admitted", "admit.go", "with one permit a number that the frontier has passed over counts as admitted", "the head is the number after settled (I4)",
		[]Edit{{`frontier = v.Settled + 1`, `frontier = max(frontier, v.Settled+1)`}}, inRoot("TestSessionEndedWhileWaiting"),
	},
	{
		"settled-and-held", "admit.go", "a number that the document shows as settled is kept", "never a settled one (I4)",
		[]Edit{{`case v.Settled < r.lowestOpen():`, `case v.Settled < r.lowestOpen() || r != nil:`}}, inRoot("TestSettledByOthers"),
	},
	{
		"spare-kept", "admit.go", "what is left of a run's capacity is kept from others", "nobody waits for what nobody uses (I7)",
		[]Edit{{`if l.exclusive() || r.inUse == 0 || r.inUse >= l.capacity(r) {`, `if r.inUse >= 0 || r.inUse >= l.capacity(r) {`}},
		inRoot("TestLineAgainstModelSeveralPermits"),
	},
	{
		"never-trimmed", "admit.go", "a run in which somebody always waits never settles its front", "memory and done stay bounded",
		[]Edit{{`if r.waits() { // of others`, `if !r.waits() { // of others`}}, inRoot("TestSteadyLoadIsSettledNowAndThen"),
	},
	{
		"settle-not-repeated", "settle.go", "a settle without a reply is not repeated", "an unknown outcome is neither success nor failure (I6)",
		[]Edit{{`if !m.pause(pause + `, `if m.pause(pause + `}}, inRoot("TestSettleWithoutReply"),
	},
	{
		"ticket-before-its-settles", "settle.go", "a ticket is deleted while an earlier settle of its numbers is on its way", "a ticket stands until all its numbers are settled (I3)",
		[]Edit{{`for _, b := range s.before {`, `for _, b := range s.before[:0] {`}}, Catch{Pkg: ".", Test: "TestTicketStandsUntilAllItsNumbersAreSettled", Says: dropped},
	},
	{
		"own-work-is-loss", "settle.go", "a repeated settle that finds its own first work takes it for a loss", "a repeat may have met its own work",
		[]Edit{{`s.lost = !fresh && attempt == 1`, `s.lost = !fresh`}}, inRoot("TestSettleWithoutReply"),
	},
	{
		"opens-what-it-did-not-settle", "settle.go", "a settle that found its numbers settled proves the next number admitted", "only this very write proves it (I4)",
		[]Edit{{`if s.opens > 0 && settled {`, `if s.opens > 0 && (settled || s.lost) {`}}, inRoot("TestASettleThatLostOpensNothing"),
	},
	{
		"waiting-run-opens", "admit.go", "a run of which nothing was granted proves the number behind it admitted", "only a head's end opens what follows (I4)",
		[]Edit{{`if l.exclusive() && r.granted { // see capacity`, `if l.exclusive() { // see capacity`}}, integration("TestWaitingRunOpensNothing"),
	},
	{
		"old-absence-believed", "void.go", "a read that does not show the lock document voids its numbers", "absence is proved only by a linearizable read",
		[]Edit{{`gone, err := l.m.queue.Gone(ctx, l.name)`, `gone, err := true, ctx.Err()`}}, inRoot("TestAnAbsenceThatIsOldIsNotBelieved"),
	},
	{
		"lapse-untold", "void.go", "the context of a held lock goes on through a lapse", "its own code is told before others take over (I4)",
		[]Edit{{`					c.lock.lose(LostLease)
`, `					_ = LostLease
`}}, inRoot("TestLapse"),
	},
	{
		"ended-and-in-line", "void.go", "waiters of an ended session keep their numbers", "those numbers are settled by others; they would never be granted (I7)",
		[]Edit{{`		case reaper.Ended:
			l.voidLocked(r, LostSession)
`, `		case reaper.Ended:
`}}, inRoot("TestSessionEndedWhileWaiting"),
	},
	{
		"void-without-margin", "void.go", "numbers of a lost holder are settled at once, on this process's own verdict", "the holder has Margin to stop (I4)",
		[]Edit{{`	if busy {
		l.m.after(`, `	if busy && l == nil {
		l.m.after(`}}, inRoot("TestTicketOfAHeldNumberFails"),
	},
	{
		"void-not-settled", "void.go", "void numbers are not settled", "every number is settled in the end (I6)",
		[]Edit{{`		return
	}
	l.m.settle(s)
}

// ticketFailed`, `		return
	}
}

// ticketFailed`}}, inRoot("TestLateTicketQueuesAgain"),
	},
}
