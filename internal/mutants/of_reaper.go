package mutants

func inReaper(test string) Catch { return Catch{Pkg: "reaper", Test: test} }

// dropped is what internal/memstore panics with when a ticket goes before its numbers.
const dropped = "dropped before its range was settled"

var ofReaper = []Mutant{
	{
		"outage-not-forgotten", "reaper/reaper.go", "beats seen before an outage still count", "the first to come back after an outage ends nobody who could not renew (I3)",
		[]Edit{{`			clear(r.seen.beats)
`, ``}}, inReaper("TestWhatWasSeenBeforeAnOutageIsNoEvidence"),
	},

	// The lease.
	{
		"trust-without-margin", "reaper/lease.go", "the session is trusted for its whole ttl", "trust ends Margin before a reaper can act (I4)",
		[]Edit{{`return sent.Add(l.cfg.TTL - l.cfg.Margin)`, `return sent.Add(l.cfg.TTL)`}}, inReaper("TestTrustCountsFromSending"),
	},
	{
		"trust-from-the-reply", "reaper/lease.go", "trust counts from the reply of a renewal", "the server may have begun the lease when it was sent (I4)",
		[]Edit{{`l.extend(r.sent)`, `l.extend(l.cfg.Clock.Now())`}}, inReaper("TestTrustCountsFromSending"),
	},
	{
		"lapse-not-counted", "reaper/lease.go", "a lapse does not change the term", "what was held through a lapse is lost (I4)",
		[]Edit{{`	l.lapses.Add(1)
	l.moveLocked(Lapsed)`, `	l.moveLocked(Lapsed)`}}, inReaper("TestLapseAndLateRenewal"),
	},
	{
		"slept-over-its-lease", "reaper/lease.go", "a renewal that comes after the lease was slept over mends it unnoticed", "a lapse is counted before trust can come back (I4)",
		[]Edit{{`	if l.cfg.Clock.Now() >= l.Until() {
		// The`, `	if l.cfg.Clock.Now() < 0 {
		// The`}}, inReaper("TestLapseIsCountedBeforeTrustMoves"),
	},
	{
		"term-ignored", "reaper/lease.go", "trust does not look at breaks since the grant", "the session was trusted without a break since the grant (I4)",
		[]Edit{{`l.cfg.Clock.Now() < until && l.lapses.Load() == term`, `l.cfg.Clock.Now() < until`}}, inReaper("TestLapseAndLateRenewal"),
	},
	{
		"end-ignored", "reaper/lease.go", "a renewal that finds its session ended is repeated like one that failed", "Ended is for ever (I4)",
		[]Edit{{`case errors.Is(r.err, ErrEnded):`, `case errors.Is(r.err, ErrEnded) && l.cfg.TTL < 0:`}}, inRoot("TestSessionEndedWhileWaiting"),
	},
	{
		"ended-and-trusted", "reaper/lease.go", "the end of a session leaves its trust as it was", "an ended session is not trusted (I4)",
		[]Edit{{`l.until.Store(math.MinInt64)`, `l.until.Store(max(math.MinInt64, l.until.Load()))`}}, inReaper("TestSessionEnded"),
	},
	{
		"renewed-too-rarely", "reaper/lease.go", "the lease is renewed when it is nearly over", "renewed every third of ttl",
		[]Edit{{`interval := min((l.cfg.TTL-l.cfg.Delay)/3, (l.cfg.TTL-l.cfg.Margin)/2)`, `interval := l.cfg.TTL - l.cfg.Margin`}}, inReaper("TestLeaseIsRenewedEveryThirdOfItsTTL"),
	},
	{
		"renewals-wait-for-silence", "reaper/lease.go", "a renewal waits for the one before it", "a primary that never answers does not keep the lease from the next",
		[]Edit{{`if flying == mostRenewals {`, `if flying == 1 {`}}, inReaper("TestRenewalIntoSilence"),
	},
	{
		"renewals-without-end", "reaper/lease.go", "a server that answers nothing is sent ever more renewals", "mostRenewals at a time",
		[]Edit{{`if flying == mostRenewals {`, `if flying < 0 {`}}, inReaper("TestRenewalsOnTheirWay"),
	},
	{
		"old-renewal-counts", "reaper/lease.go", "the failure of a renewal counts after one that was sent later was acknowledged", "the pace is that of what was acknowledged",
		[]Edit{{`case r.number < acked:`, `case r.number < min(acked, 0):`}}, inReaper("TestRenewalIntoSilence"),
	},
	{
		"old-end-ignored", "reaper/lease.go", "an end is not heard from the reply to an older renewal", "Ended is for ever (I4)",
		[]Edit{{`case errors.Is(r.err, ErrEnded):`, `case errors.Is(r.err, ErrEnded) && r.number > acked:`}}, inReaper("TestEndIsHeardOfLate"),
	},

	// Session documents.
	{
		"never-late", "reaper/lease.go", "an outage is none until the lease is over", "the first to come back after an outage ends nobody who could not renew (I3)",
		[]Edit{{`return l.Until() < l.cfg.Clock.Now().Add((l.cfg.TTL-l.cfg.Margin)/3)`, `return l.Until() < l.cfg.Clock.Now()`}}, inReaper("TestLate"),
	},
	{
		"resumed-untold", "reaper/lease.go", "that an outage is over is not told", "the first to come back after an outage ends nobody who could not renew (I3)",
		[]Edit{{`if l.cfg.Resumed != nil && l.Late() {`, `if l.cfg.Resumed != nil && l.cfg.TTL < 0 {`}}, inReaper("TestLate"),
	},
	{
		"renewed-after-its-end", "reaper/sessions.go", "a session that was ended can be renewed", "an end is for ever (I3)",
		[]Edit{{`{Key: "ended", Value: bson.D{{Key: "$exists", Value: false}}}, wellFormed[0]}`, `wellFormed[0]}`}}, integration("TestSessionsOnAServer"),
	},
	{
		"renewal-is-a-no-op", "reaper/sessions.go", "a renewal does not move the beat", "each acknowledged renewal is a real change; the beat shows life (I3)",
		[]Edit{{`bson.A{"$beat", int64(0)}}}, int64(1)}}}}`, `bson.A{"$beat", int64(0)}}}, int64(0)}}}}`}}, integration("TestSessionsOnAServer"),
	},
	{
		"begins-over-an-end", "reaper/sessions.go", "beginning a session that was ended succeeds", "an end is for ever (I3)",
		[]Edit{{`		return ErrEnded
	}
	return c.wrap(ctx, "begin"`, `		return nil
	}
	return c.wrap(ctx, "begin"`}}, integration("TestSessionsOnAServer"),
	},
	{
		"ends-another-beat", "reaper/sessions.go", "a session is ended although it was renewed meanwhile", "the write itself requires the same beat (I3)",
		[]Edit{{`		bson.E{Key: "beat", Value: beat},
`, ``}}, integration("TestSessionsOnAServer"),
	},
	{
		"ends-before-its-time", "reaper/sessions.go", "a session is ended although its lease runs by the server's clock", "the server's clock must agree (I3)",
		[]Edit{{`bson.A{"$expiresAt", "$$NOW"}`, `bson.A{false, true}`}}, integration("TestSessionsOnAServer"),
	},
	{
		"buries-the-living", "reaper/sessions.go", "a session that is there after all is ended by Bury", "absence proves nothing (I3)",
		[]Edit{{`			{Key: "$nor", Value: bson.A{wellFormed}},
`, ``}}, integration("TestSessionsOnAServer"),
	},
	{
		"session-label-is-code", "reaper/sessions.go", "the label of a session is written without $literal", "strings of users are data",
		[]Edit{{`return bson.D{{Key: "$literal", Value: v}} }`, `return bson.D{{Key: "$concat", Value: bson.A{v}}} }`}}, integration("TestSessionsOnAServer"),
	},

	// Evidence.
	{
		"half-a-ttl", "reaper/reaper.go", "a beat that has stood for half a ttl counts as dead", "seen unchanged for the whole ttl (I3)",
		[]Edit{{`left = s.TTL() - r.beat(`, `left = s.TTL()/2 - r.beat(`}}, inReaper("TestEndsASessionOnlyAfterItsFullTTLSeenUnchanged"),
	},
	{
		"one-look", "reaper/reaper.go", "a session is ended at the first look that finds it expired", "no clock of another machine decides alone (I3)",
		[]Edit{{`left = s.TTL() - r.beat(s.ID, s.Beat); left > 0 {`,
			`left = s.TTL() - r.beat(s.ID, s.Beat); left < 0 {`}}, inReaper("TestEndsASessionOnlyAfterItsFullTTLSeenUnchanged"),
	},
	{
		"beat-not-compared", "reaper/observe.go", "a beat that has moved counts as one that has stood", "seen unchanged for the whole ttl (I3)",
		[]Edit{{`if !ok || b.beat != beat {`, `if !ok {`}}, inReaper("TestBeatSightings"),
	},
	{
		"acts-on-absence", "reaper/reaper.go", "a session without a document counts as ended at the first look", "absence proves nothing (I3)",
		[]Edit{{`if left = wait - r.beat(id, absent); left > 0 {
		return false, left, nil
	}`, `if r.beat(id, absent) == 0 {
		return true, 0, nil
	}`}}, inReaper("TestSessionWithoutADocument"),
	},
	{
		"absence-not-proved", "reaper/reaper.go", "after the wait a session without a document counts as ended, whatever is there now", "an ended session is written in its place first (I3)",
		[]Edit{{`return err == nil && len(s) == 1 && s[0].Ended, r.tick(), err`, `return err == nil && len(s) == 1, r.tick(), err`}}, inReaper("TestSessionThatIsThereAfterAll"),
	},
	{
		"gap-at-once", "reaper/reaper.go", "a number without a ticket is buried at the second look", "watched for the grace that the document names (I3)",
		[]Edit{{`gaps, max(v.Grace(), time.Millisecond))`, `gaps, time.Millisecond)`}}, inReaper("TestOrphanNumbersNeedAFullGrace"),
	},
	{
		"grace-of-its-own", "reaper/reaper.go", "a number without a ticket is buried after the reaper's own ttl", "watched for the grace that the document names (I3)",
		[]Edit{{`gaps, max(v.Grace(), time.Millisecond))`, `gaps, r.cfg.TTL)`}}, inReaper("TestOrphanNumbersNeedAFullGrace"),
	},
	{
		"gap-never-ripens", "reaper/observe.go", "each look begins the watch of a gap anew", "orphan numbers are cleared after a grace (I6)",
		[]Edit{{`gapSeen{part, old.since, old.server}`, `gapSeen{part, now, server}`}}, inReaper("TestGapSightings"),
	},
	{
		"gap-by-one-clock", "reaper/observe.go", "a number without a ticket is buried when the grace is over by the reaper's own clock alone", "it takes two clocks to say that trust is over (I3)",
		[]Edit{{`min(now.Sub(g.since), server.Sub(g.server))`, `now.Sub(g.since)`}}, inReaper("TestGapsNeedTwoClocks"),
	},
	{
		"settles-what-it-read", "reaper/reaper.go", "a gap is settled without tombstones", "the tombstone decides (I3)",
		[]Edit{{`dead, err := r.cfg.Queue.Bury(ctx, name, gaps)`, `dead, err := gaps, ctx.Err()`}}, inReaper("TestStaleReadsBuryNothing"),
	},
	{
		"tombstones-stay", "reaper/reaper.go", "tombstones are not taken away after the settle", "after quiet there is no tombstone (I8)",
		[]Edit{{`"numbers", n)
	return r.cfg.Queue.DropTickets(ctx, ids)`, `"numbers", n)
	return ctx.Err()`}}, inReaper("TestOrphanNumbersNeedAFullGrace"),
	},

	// Clearing.
	{
		"ticket-before-number", "reaper/reaper.go", "a dead session's tickets are deleted before its numbers are settled", "no unsettled number without a ticket (I6)",
		[]Edit{{`	if err := r.settle(ctx, name, ranges, arrival); err != nil {
		return err
	}
	r.cleared`, `	defer func() { _ = r.settle(ctx, name, ranges, arrival) }()
	r.cleared`}}, Catch{Pkg: "reaper", Test: "TestEndsASessionOnlyAfterItsFullTTLSeenUnchanged", Says: dropped},
	},
	{
		"this-lock-only", "reaper/reaper.go", "of a dead session only the tickets of the lock that was looked at are cleared", "a dead process delays each queue by one lease (I6)",
		[]Edit{{`return soon, r.clearSessions(ctx, cleared)`, `return soon, nil`}}, inReaper("TestEndsASessionOnlyAfterItsFullTTLSeenUnchanged"),
	},
	{
		"half-settled-is-garbage", "reaper/reaper.go", "a ticket of which the first number is settled counts as garbage", "tickets go when all their numbers are settled",
		[]Edit{{`len(queue.Subtract(t.Range(), settled)) == 0:`, `len(queue.Subtract(queue.Range{Lo: t.ID.Lo, Hi: t.ID.Lo}, settled)) == 0:`}}, Catch{Pkg: "reaper", Test: "TestHalfOfATicketIsNoGarbage", Says: dropped},
	},
	{
		"sweeps-the-waiting", "reaper/sweep.go", "the sweep deletes the ticket of the head", "tickets go when all their numbers are settled",
		[]Edit{{`if t.Hi <= v.Settled {`, `if t.Hi <= v.Settled+1 {`}}, Catch{Pkg: "reaper", Test: "TestSweepLeavesTheLivingAlone", Says: dropped},
	},
	{
		"sweeper-unwatched", "reaper/sweep.go", "who may not sweep does not watch the one who may", "a dead sweeper is noticed (I6)",
		[]Edit{{`		r.look(ctx, t, false)
	}
	if !mine`, `		_ = t
	}
	if !mine`}}, inReaper("TestWithoutTheRightItWatchesTheSweeper"),
	},
	{
		"sweep-sees-no-orphans", "reaper/sweep.go", "the sweep looks for orphans only in locks that move", "orphans nobody waits behind are cleared (I8)",
		[]Edit{{`ok && old.Settled == v.Settled {`, `ok && old.Settled != v.Settled {`}}, inReaper("TestSweepRunsAndClearsWhatNobodyWaitsBehind"),
	},
	{
		"stood-too-long", "reaper/reaper.go", "what was found at a look is used after the queue has moved", "a look rests on the document as it is",
		[]Edit{{`st.settled == v.Settled && st.hi == hi && st.done == len(v.Done) && `, ``}}, inReaper("TestALookAfterAMoveReadsTickets"),
	},
	{
		"all-look-alike", "reaper/reaper.go", "those far back look as often as the head", "the looks of n waiters cost as n, not as n squared",
		[]Edit{{`time.Duration(1+t.Ahead/8)`, `time.Duration(1)`}}, inReaper("TestLooksOfThoseFarBackAreRare"),
	},
}
