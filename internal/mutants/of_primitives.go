package mutants

// ofPrimitives are faults in what stands on the queue: semaphores, read/write locks, sets, fences, and what operators do.
var ofPrimitives = []Mutant{
	// Permits.
	{
		"promises-kept", "queue/admin.go", "with fewer permits the numbers that the frontier promised are issued all the same", "no more than the new permits are admitted (I4)",
		[]Edit{{`op("$and", op("$gt", "$permits", permits), op("$gt", "$frontier", "$issued")), false)`, `op("$and", op("$gt", "$permits", permits), op("$lt", "$frontier", "$settled")), false)`}}, onServer,
	},
	{
		"promises-kept-in-memory", "queue/reference.go", "the same in the reference", "no more than the new permits are admitted (I4)",
		[]Edit{{`if permits < l.Permits && l.Frontier > l.Issued {`, `if permits < l.Permits && l.Frontier < l.Settled {`}}, inRoot("TestSetPermitsAdmitsWhoFits"),
	},
	{
		"managed-is-collected", "queue/pipeline.go", "a semaphore whose permits were set by hand counts as idle", "what was decided by hand is kept",
		[]Edit{{`op("$and", op("$eq", "$settled", "$issued"), op("$ne", "$managed", true)), "$$NOW", "$$REMOVE")),
			to("was"`, `op("$and", op("$eq", "$settled", "$issued")), "$$NOW", "$$REMOVE")),
			to("was"`}}, onServer,
	},
	{
		"named-permits-count", "queue/store.go", "after SetPermits those who name other permits are refused", "the document says how many there are",
		[]Edit{{`v.Permits == shape.Permits || v.Managed && v.Kind == KindSemaphore`, `v.Permits == shape.Permits`}}, inRoot("TestSetPermitsAdmitsWhoFits"),
	},
	{
		"too-big-waits", "forced.go", "who waits for more units than there are any more goes on waiting", "nobody waits for ever (I7)",
		[]Edit{{`return c.units > v.Permits && c.num.Hi <= v.Issued`, `return c.units > v.Permits && c.num.Hi < 0`}}, inRoot("TestTooManyUnits"),
	},
	{
		"first-units-released", "admit.go", "Release gives back the first units and not the last", "the token stays",
		[]Edit{{`	c.num.Hi -= n
`, `	c.num.Lo += n
`}}, inRoot("TestReleaseKeepsTheToken"),
	},

	// Force.
	{
		"force-of-waiters", "queue/admin.go", "a number that waits is unlocked by force", "only an admitted grant",
		[]Edit{{`bson.D{{Key: "frontier", Value: bson.D{{Key: "$gte", Value: r.Hi}}}},`, `bson.D{{Key: "frontier", Value: bson.D{{Key: "$gte", Value: 0}}}},`}}, onServer,
	},
	{
		"force-without-entry", "queue/admin.go", "the entries of force are not kept", "who, when and why",
		[]Edit{{`		to("audit", audit),
`, ``}, {`	audit := op(`, `	_ = op(`}}, onServer,
	},
	{
		"forced-not-told", "admin.go", "the holder's session is not told", "a certain signal of loss",
		[]Edit{{`m.sessions.Tell(ctx, g.session,`, `m.sessions.Tell(ctx, "",`}}, inRoot("TestForcedIsToldByRenewal"),
	},
	{
		"forced-not-heard", "reaper/lease.go", "what renewals bring is not passed on", "a certain signal of loss",
		[]Edit{{`if len(r.forced) > 0 && l.cfg.Forced != nil {`, `if len(r.forced) > 0 && l.cfg.Forced == nil {`}}, inRoot("TestForcedIsToldByRenewal"),
	},
	{
		"force-not-looked-into", "forced.go", "a line of several permits does not read which numbers were settled by force", "a settled number is no capacity (I4)",
		[]Edit{{`case l.exclusive() || len(l.runs) == 0:`, `case true:`}}, inRoot("TestForcedIsLookedInto"),
	},
	{
		"forced-is-capacity", "forced.go", "numbers that others settled stay capacity of the run", "a settled number is no capacity (I4)",
		[]Edit{{`	if len(open) == 0 {
		return
	}
	r.claims`, `	if len(open) == 0 || len(again) == 0 {
		return
	}
	r.claims`}}, inRoot("TestForcedOutOfOrder"),
	},
	{
		"run-voided-with-one", "admit.go", "one number settled by others voids the whole run", "the rest keep their place",
		[]Edit{{`		case v.Settled >= r.Hi:
`, `		case v.Settled >= r.Lo:
`}}, inRoot("TestHolderOfAVoidNumberHasMarginToStop"),
	},
	{
		"request-for-all", "requests.go", "a request reaches holders who came after it", "those who come after are not meant",
		[]Edit{{`(c.num.Hi <= q.UpTo || l.exclusive() && r.Contains(q.UpTo)) {`, `(c.num.Hi <= q.UpTo || l.exclusive()) {`}}, inRoot("TestRequestRelease"),
	},

	// The lock-delay.
	{
		"no-delay-after-a-loss", "config.go", "what is given back after a loss is given back without the delay", "nobody is admitted for the delay after a loss",
		[]Edit{{`return c.Margin + c.LockDelay`, `return c.Margin`}}, inRoot("TestLockDelay/maximum hold"),
	},
	{
		"no-delay-after-a-death", "session.go", "the lease that others see is without the delay", "nobody is admitted for the delay after a loss",
		[]Edit{{`TTL: m.cfg.lease(), Margin: m.cfg.rest(), Delay: m.cfg.LockDelay,`, `TTL: m.cfg.TTL, Margin: m.cfg.Margin,`}}, inRoot("TestLockDelay/cut off"),
	},

	// Sets, and waiting for oneself.
	{
		"as-named", "set.go", "the locks of a set are taken in the order in which they are named", "no two callers wait for each other",
		[]Edit{{`	sorted := slices.Sorted(slices.Values(names))
`, `	sorted := slices.Collect(slices.Values(names))
`}}, inRoot("TestLockAllTakesAllInOneOrder"),
	},
	{
		"one-lost-alone", "set.go", "the others of a set are kept when one is lost", "losing one is losing all",
		[]Edit{{`	for _, other := range s.locks {
		other.lose(LostOther)
	}
`, ``}}, inRoot("TestLosingOneIsLosingAll"),
	},
	{
		"half-a-set-kept", "set.go", "a LockAll that fails keeps what it has", "all or nothing",
		[]Edit{{`			s.giveUp()
`, ``}}, inRoot("TestLockAllIsAllOrNothing"),
	},
	{
		"waits-without-the-first", "set.go", "who has lost the first of a set goes on waiting for the second", "losing one is losing all",
		[]Edit{{`stop(context.Cause(under)) })()`, `_ = under })()`}}, inRoot("TestLockAllEndsWithAnEarlierLoss"),
	},
	{
		"waits-for-itself", "reentry.go", "a call that could only wait for its caller waits", "an error and no deadlock",
		[]Edit{{`if l.line.name != name ||`, `if l.line.name != "" ||`}}, Catch{Pkg: ".", Test: "TestALockUnderItsOwnContextIsRefused", Says: "test hangs"},
	},
	{
		"upgrade-unnamed", "reentry.go", "a read lock that is asked for to write is called reentrant", "an error that says so",
		[]Edit{{`err = ErrUpgrade`, `err = ErrReentrant`}}, inRoot("TestReadLocksAreNotUpgraded"),
	},

	// Fences.
	{
		"older-gets-in", "fence/fence.go", "a document admits any token", "a stale write is refused",
		[]Edit{{`{Key: "$lte", Value: f.token}, noArray`, `{Key: "$gte", Value: int64(0)}, noArray`}}, integration("TestFenceRefusesOlderTokens"),
	},
	{
		"stale-is-silent", "fence/write.go", "a write that a later token refused is no error", "an error and no silence",
		[]Edit{{`return &StaleError{Token: f.token, Seen: seen}, false`, `return nil, false`}}, integration("TestFenceRefusesOlderTokens"),
	},
	{
		"token-not-left", "fence/fence.go", "an update pipeline does not leave the token", "the next older write is refused",
		[]Edit{{`	return append(p, bson.D{{Key: "$set", Value: bson.D{{Key: f.field, Value: f.token}}}})
`, `	return p
`}}, Catch{Pkg: "fence", Test: "TestUpdateForms"},
	},
	{
		"field-of-the-user", "fence/fence.go", "an update may change the token's field", "bad input is refused",
		[]Edit{{`if touches(c.Key) || op == "$rename" && touches(to) {`, `if op == "$rename" && touches(to) {`}}, Catch{Pkg: "fence", Test: "TestUpdatesThatCannotBeFenced"},
	},
	{
		"weak-fence", "fence/write.go", "a fenced write has the concern of the user's collection", "a token that a failover takes back refuses nobody",
		[]Edit{{`		SetWriteConcern(writeconcern.Majority()).
`, ``}, {`	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
`, ``}}, integration("TestFenceConcerns"),
	},
}
