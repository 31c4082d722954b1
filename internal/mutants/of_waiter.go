package mutants

func inWaiter(test string) Catch { return Catch{Pkg: "waiter", Test: test} }

var ofWaiter = []Mutant{
	{
		"reopen-without-reading", "waiter/pump.go", "a stream is opened and the locks are not read", "what happened before the opening is not lost (I7)",
		[]Edit{{`names := w.names()`, `names := w.names()[:0]`}}, inWaiter("TestReopeningReads"),
	},
	{
		"opened-from-now", "waiter/mongo.go", "the stream begins when the server opens it, not at the operation time that was taken before",
		"nothing is lost between the read and the stream (I7)",
		[]Edit{{`		SetStartAtOperationTime(&o.at).SetMaxAwaitTime(await))`, `		SetMaxAwaitTime(await))`}}, integration("TestStreamBeginsWhereItsOpeningBegan"),
	},
	{
		"opening-reads-outside", "waiter/mongo.go", "the read of an opening is not in the causally consistent session", "the read is no older than the stream's beginning (I7)",
		[]Edit{{`o.queue.Views(mongo.NewSessionContext(ctx, o.sess), names)`, `o.queue.Views(ctx, names)`}}, integration("TestOpeningReadsAfterItsTime"),
	},
	{
		"no-catch-up", "waiter/watcher.go", "a lock whose number was asked for before the stream's beginning is not read", "its events may have come before the stream (I7)",
		[]Edit{{`since <= sh.openedAt {`, `since < 0 {`}}, inWaiter("TestCatchUp"),
	},
	{
		"no-recheck", "waiter/check.go", "while a stream is open nothing is read", "a stream can go silent without an error (I7)",
		[]Edit{{`sh.openedAt == 0 || wt.rechecks%min(1+wt.pace.ahead/8, 5) == 0 {`, `sh.openedAt == 0 {`}}, inWaiter("TestRecheckDeliversWhatTheStreamDropped"),
	},
	{
		"no-watchdog", "waiter/pump.go", "a stream that never returns is waited for", "a frozen server says nothing, not even an error (I7)",
		[]Edit{{`call, cancel := context.WithTimeout(ctx, w.cfg.Await+w.cfg.OpTimeout)`, `call, cancel := context.WithCancel(ctx)`}}, inWaiter("TestWatchdog"),
	},
	{
		"settled-believed", "waiter/mongo.go", "an event that does not show settled is taken for news of the number's own document",
		"the frontier of a document made anew admits no old number (I5)",
		[]Edit{{`e.Settled, e.Frontier, ok = queue.Told(text); !ok {`, `e.Settled, _, ok = queue.Told(text); !ok && text != "" {`}}, inWaiter("TestToldOfItsDocument"),
	},
	{
		"settled-is-zero", "waiter/mongo.go", "an event without settled reads as one that shows settled 0", "the frontier of a document made anew admits no old number (I5)",
		[]Edit{{`return -1, nil`, `return 0, nil`}}, integration("TestEventsSayWhatTheyShow"),
	},
	{
		"replacements-unheard", "waiter/mongo.go", "the stream leaves out what the server logs as a replacement", "the settle is the wake-up (I7)",
		[]Edit{{`bson.A{"replace", "delete"}`, `bson.A{"delete"}`}}, integration("TestEventsSayWhatTheyShow"),
	},
	{
		"deletions-unheard", "waiter/mongo.go", "the stream leaves out deletions", "who waits for a lock whose document is gone queues again (I7)",
		[]Edit{{`bson.A{"replace", "delete"}`, `bson.A{"replace"}`}}, integration("TestEventsSayWhatTheyShow"),
	},
	{
		"dead-stream-kept", "waiter/mongo.go", "a stream whose cursor the server has closed is read for ever", "a stream that has ended is opened anew (I7)",
		[]Edit{{`s.id = s.cs.ID(); s.id == 0 {`, `s.id = s.cs.ID(); s.id < 0 {`}}, integration("TestStreamEndsWithItsCollection"),
	},
	{
		"unknown-names-unheard", "waiter/pump.go", "events of locks that nobody waits for yet are dropped", "the event may be the only news (I7)",
		[]Edit{{`			useful++
		}
`, `			useful++
		} else {
			continue
		}
`}}, Catch{Pkg: ".", Test: "TestTheTurnComesBeforeTheNumber"},
	},
	{
		"filter-outlived", "waiter/watcher.go", "a lock outside the stream's filter does not have it opened anew", "the stream tells of all that is waited for (I7)",
		[]Edit{{`sh.only != nil && !sh.only[name] {
		sh.reopen()`, `sh.only != nil && !sh.only[name] {
		sh.only[name] = true`}}, inWaiter("TestIrrelevantEventsNarrowTheStream"),
	},
	{
		"never-narrow", "waiter/pump.go", "a stream on all locks is kept whatever it tells", "a process is not woken for the locks of others",
		[]Edit{{`idle >= mostIdle && w.narrows(sh, heard, idle)`, `idle < 0 && w.narrows(sh, heard, idle)`}}, inWaiter("TestIrrelevantEventsNarrowTheStream"),
	},
	{
		"missing-untold", "waiter/check.go", "a document that is not there is not told of", "who waits for a lock whose document is gone queues again (I7)",
		[]Edit{{`for name := range missing {`, `for name := range map[string]bool{} {`}}, Catch{Pkg: ".", Test: "TestCollectionDropped"},
	},
	{
		"slow-without-stream", "waiter/check.go", "the re-check is as slow without a stream as with one", "reads stand in for the stream while it is down",
		[]Edit{{`return min(w.cfg.Recheck, retryPause)`, `return w.cfg.Recheck`}}, inWaiter("TestReadsAreFrequentWhileTheStreamIsDown"),
	},
	{
		"no-back-off", "waiter/pump.go", "streams that fail are opened again four times a second, for ever", "the next at once, then at most one a second",
		[]Edit{{`pause = min(max(2*pause, firstPause*2), mostPause)`, `pause = retryPause`}}, inWaiter("TestStreamErrorsReopenWithBackOff"),
	},
	{
		"starves-the-pool", "waiter/pump.go", "a stream that takes the last connection is kept", "the lease can be renewed beside the stream",
		[]Edit{{`case starved == 2:`, `case starved > 1_000_000:`}}, inWaiter("TestStarvingStreamMakesItPoll"),
	},
	{
		"dozes-for-ever", "waiter/pace.go", "who dozes in a queue that has come to a stand never listens again", "when nothing moves any more the dozer listens",
		[]Edit{{`if p.per > p.fast() || still > max(standsAtLeast, standsSteps*per) {`, `if p.per > p.fast() {`}}, inWaiter("TestPaceAfterAStandstill"),
	},
	{
		"slow-is-believed", "waiter/pace.go", "a slower pace is followed as fast as a quicker one", "who oversleeps must not make itself oversleep more",
		[]Edit{{`w = 0.1`, `w = 0.6`}}, inWaiter("TestPaceInASimulatedQueue"),
	},
	{
		"linger-leak", "waiter/watcher.go", "the goroutines never end once somebody has waited", "they end Linger after the last waiter",
		[]Edit{{`if w.closed || w.waiting > 0 || now.Sub(w.idleFrom) < w.cfg.Linger {`, `if w.waiting >= 0 {`}}, inWaiter("TestRetireAndRestart"),
	},
	{
		"retires-too-soon", "waiter/watcher.go", "the stream is closed although somebody waits again", "the goroutines run while a lock is waited for (I7)",
		[]Edit{{`if w.closed || w.waiting > 0 || now.Sub(w.idleFrom) < w.cfg.Linger {`, `if w.closed || now.Sub(w.idleFrom) < w.cfg.Linger {`}},
		inWaiter("TestEachWaitNeedsItsLeave"),
	},
	{
		"one-leave-ends-all", "waiter/watcher.go", "the first of two waiters to leave takes the other's watch with it", "each Wait needs one Leave",
		[]Edit{{`if wt.waiters--; wt.waiters > 0 {
		return
	}`, `if wt.waiters--; wt.waiters > 0 {
		wt.waiters = 0
	}`}}, inWaiter("TestEachWaitNeedsItsLeave"),
	},
	{
		"close-runs-away", "waiter/watcher.go", "Close does not wait for the goroutines", "nobody is told anything after Close",
		[]Edit{{`	w.mu.Unlock()
	w.wg.Wait()
`, `	w.mu.Unlock()
`}}, inWaiter("TestClose"),
	},
	{
		"closed-with-a-dead-context", "waiter/pump.go", "a stream is closed with a context that has ended", "the server's cursor is not left behind",
		[]Edit{{`context.WithTimeout(context.WithoutCancel(ctx), w.cfg.OpTimeout)`, `context.WithTimeout(ctx, w.cfg.OpTimeout)`}},
		inWaiter("TestStreamsAreClosedWithALiveContext"),
	},
}
