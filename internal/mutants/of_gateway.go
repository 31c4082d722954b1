package mutants

func inGateway(test string) Catch { return Catch{Pkg: "gateway", Test: test} }

var ofGateway = []Mutant{
	{
		"gw-vanished-holds-on", "gateway/lease.go", "a holder that is not heard of keeps its lock", "a client that vanishes delays the next by its heartbeat time only",
		[]Edit{{`	case held:
		l.moveLocked(lost, why)
	}`, `	case held:
		if why == isClosing {
			l.moveLocked(lost, why)
		}
	}`}}, Catch{Pkg: "gateway", Test: "TestHeartbeat", Says: "test hangs"},
	},
	{
		"gw-looking-counts", "gateway/serve.go", "GET keeps a lease alive", "a page that looks is not the client",
		[]Edit{{`		v, _, _ := l.look()
		writeJSON(w, http.StatusOK`, `		l.heartbeat()
		v, _, _ := l.look()
		writeJSON(w, http.StatusOK`}}, inGateway("TestHeartbeat"),
	},
	{
		"gw-broken-is-heard", "gateway/lease.go", "a stream that broke counts as heard of at that moment", "it may have been dead for half a heartbeat time",
		[]Edit{{`		ago = l.ask.heartbeat / 2
`, `		ago = 0
`}}, inGateway("TestStreamKeeps"),
	},
	{
		"gw-heartbeats-only-ignored", "gateway/stream.go", "a stream keeps a lease that wants heartbeats only", "renew is heartbeat",
		[]Edit{{`keeps := !l.ask.heartbeatOnly`, `keeps := true`}}, Catch{Pkg: "gateway", Test: "TestStreamThatDoesNotKeep", Says: "test hangs"},
	},
	{
		"gw-promises-too-much", "gateway/lease.go", "leftMs is twice the heartbeat time", "within leftMs of its request a client is sure to hold",
		[]Edit{{`	return time.Until(l.deadline) - slack`, `	return 2*time.Until(l.deadline) - slack`}}, inGateway("TestHoldAndRelease"),
	},
	{
		"gw-promises-beyond-the-lock", "gateway/lease.go", "leftMs does not ask the lock", "the gateway itself is sure for Lock.Left only",
		[]Edit{{`max(min(l.lock.Left(), l.untilLocked()), 0)`, `max(l.untilLocked(), 0)`}}, inGateway("TestLossIsTold"),
	},
	{
		"gw-grant-after-leaving", "gateway/run.go", "a grant to a place that was given up is taken for a hold", "a grant that nobody waits for goes back",
		[]Edit{{`	case l.state != waiting: // left meanwhile
		return false`, `	case l.state != waiting: // left meanwhile
		return lock != nil`}}, inGateway("TestGrantToNobody"),
	},
	{
		"gw-no-tombstone", "gateway/past.go", "a lease that is over is forgotten at once", "a delayed repetition takes nothing",
		[]Edit{{`const keepOver = time.Minute`, `const keepOver = 0 * time.Minute`}}, inGateway("TestRepeatedRequest"),
	},
	{
		"gw-other-ask-same-lease", "gateway/server.go", "an id that is used for another lock finds the lease of the first", "who asks for y does not get x",
		[]Edit{{`if a != nil && l.ask != *a {`, `if a != nil && l.ask.kind != a.kind {`}}, inGateway("TestRepeatedRequest"),
	},
	{
		"gw-answers-before-line", "gateway/serve.go", "an answer is given before the call is in line", "whoever asks after an answer stands behind it",
		[]Edit{{`	<-l.placed // soon: it is called without a wait for anything outside this process
`, ``}}, inGateway("TestAnswersWaitForThePlace"),
	},
	{
		"gw-lost-time-to-stop", "gateway/run.go", "a lock that is lost by its time limit is given on at once", "a holder has Config.Margin to stop",
		[]Edit{{`	case state == lost && why != notHeard && why != isClosing:
		return // with l.lock, for stopped
`, ``}}, inGateway("TestLossIsTold"),
	},
	{
		"gw-shut-out-stays", "gateway/stream.go", "a client that is taken out of the list keeps its stream, and with it its lock", "who is shut out holds nothing up",
		[]Edit{{`		case !l.s.admits(l.key.client):
			return true
`, ``}}, Catch{Pkg: "gateway", Test: "TestSetClients", Says: "test hangs"},
	},
	{
		"gw-close-breaks-promises", "gateway/run.go", "a gateway that closes hands on at once what clients hold by heartbeats", "until leftMs is over they believe (I4)",
		[]Edit{{`		case <-l.stop:
		case`, `		default:
		case`}}, inGateway("TestCloseKeepsItsWord"),
	},
	{
		"gw-forgets-promises", "gateway/lease.go", "the longest leftMs that was told is not kept", "until it is over the client believes (I4)",
		[]Edit{{`if until := time.Now().Add(left); until.After(l.promised) {`, `if until := time.Now(); until.After(l.promised) {`}}, inGateway("TestCloseKeepsItsWord"),
	},
	{
		"gw-told-is-stopped", "gateway/stream.go", "who holds by heartbeats is taken to have stopped when a stream of his told him", "only DELETE says so",
		[]Edit{{`			if !l.ask.heartbeatOnly {
				l.stops()`, `			if true {
				l.stops()`}}, inGateway("TestCloseKeepsItsWord"),
	},
	{
		"gw-close-leaves-waiters", "gateway/server.go", "at the end only holders are ended", "every client is told that it closes",
		[]Edit{{`	for _, of := range []state{waiting, held} {`, `	for _, of := range []state{held} {`}}, Catch{Pkg: "gateway", Test: "TestCloseTellsAndHandsOn", Says: "deadlock"},
	},
	{
		"gw-close-says-nothing", "gateway/stream.go", "the end of the gateway is told as any other loss", "every client is told that it closes",
		[]Edit{{`	if s.final() && v.Reason == isClosing {
		return "closing"
	}
`, ``}}, inGateway("TestCloseTellsAndHandsOn"),
	},
	{
		"gw-slow-bodies", "gateway/route.go", "a body has all the time it wants", "slow clients cost a connection for a bounded time",
		[]Edit{{`	hurry(w, r)
`, ``}}, Catch{Pkg: "gateway", Test: "TestSlowClients", Says: "test hangs"},
	},
	{
		"gw-unread-streams", "gateway/stream.go", "a stream that is not read is written to for ever", "who does not read costs a connection for a bounded time",
		[]Edit{{`	_ = e.rc.SetWriteDeadline(time.Now().Add(e.limit)) // not every ResponseWriter can
`, ``}}, inGateway("TestSlowClients"),
	},
	{
		"gw-first-token-for-all", "gateway/auth.go", "any token that is as long as another is let in", "a wrong token is refused",
		[]Edit{{`subtle.ConstantTimeCompare(sum[:], k.sums[i][:])`, `subtle.ConstantTimeCompare(sum[:0], k.sums[i][:0])`}}, inGateway("TestTokens"),
	},
	{
		"gw-readers-take-locks", "gateway/route.go", "a client that may only look can take locks", "read is read",
		[]Edit{{`if ro.writes && client.ReadOnly {`, `if ro.public && client.ReadOnly {`}}, inGateway("TestTokens"),
	},
	{
		"gw-page-shows-the-past", "gateway/inspect.go", "the page shows a lock as the database does, up to a second late", "the queue moves within a second of a release",
		[]Edit{{`		return known && !holds`, `		return known && holds && !holds`}}, inGateway("TestWatch"),
	},
	{
		"gw-reads-for-nobody", "gateway/feed.go", "the queues are read on when nobody looks any more", "a page that is closed costs nothing",
		[]Edit{{`	if len(f.watchers) == 0 {
		f.stop()
	}
}`, `}`}}, inGateway("TestWatch"),
	},
	{
		"gw-limit-outlives-write", "gateway/stream.go", "the time limit of a stream's write stands while nothing is written", "on HTTP/2 it ends the stream",
		[]Edit{{`		e.rest()
		select {
`, `		select {
`}}, inGateway("TestStreamsOfHTTP2"),
	},
	{
		"gw-unread-answers", "gateway/server.go", "an answer that is not read is written for ever", "who does not read costs a connection for a bounded time",
		[]Edit{{`		WriteTimeout: maxPoll + answerLimit, // from the end of the header on; streams have limits of their own
`, ``}}, inGateway("TestSlowClients"),
	},
	{
		"gw-deaf-connection", "gateway/server.go", "a connection of HTTP/2 that takes nothing stays", "who does not read holds nothing up for ever",
		[]Edit{{`			WriteByteTimeout: answerLimit,
`, ``}}, Catch{Pkg: "gateway", Test: "TestDeafHTTP2", Says: "test hangs"},
	},
	{
		"gw-one-fills-it", "gateway/server.go", "a client has as many leases as it likes, whatever MaxLeasesEach is", "one client cannot fill the gateway",
		[]Edit{{`	s.liveOf[key.client]++
`, ``}}, inGateway("TestLeasesOfOneClientAreBounded"),
	},
	{
		"gw-one-watches-alone", "gateway/feed.go", "a client has as many streams of the status page as it likes", "one client cannot keep the others from it",
		[]Edit{{`	f.of[client]++
`, ``}}, Catch{Pkg: "gateway", Test: "TestWatchersOfOneClientAreBounded", Says: "test hangs"},
	},
	{
		"gw-one-reads-alone", "gateway/reads.go", "a client has all turns to read queues", "who takes no answers keeps no others from theirs",
		[]Edit{{`taken: make(chan struct{}, t.each)`, `taken: make(chan struct{}, cap(t.all))`}}, inGateway("TestReadsOfOneClientAreBounded"),
	},
	{
		"gw-flood-forgets", "gateway/past.go", "the oldest of all that is over goes first, whoever ended the most", "a delayed repetition takes nothing, however many leases others end",
		[]Edit{{`	return p.oldest(client)
}

// old `, `	return p.oldest(p.all.Front().Value.(retired).lease.key.client)
}

// old `}}, inGateway("TestWhatIsOverIsKeptForEach"),
	},
	{
		"gw-network-of-addresses", "gateway/conns.go", "each IPv6 address counts alone", "one machine has a /64, and with it any number of them",
		[]Edit{{`at.Addr().Unmap(), 64`, `at.Addr().Unmap(), 128`}}, inGateway("TestConnectionsOfOneNetwork"),
	},
	{
		"gw-ended-stay-counted", "gateway/conns.go", "a connection that has ended counts for its address", "after one ends there is room",
		[]Edit{{`			leave()
`, `			_ = leave
`}}, inGateway("TestConnectionsOfOneAddressAreBounded"),
	},
	{
		"gw-refused-keep-slots", "gateway/conns.go", "a connection that is refused takes a place of the others for ever", "one address cannot fill the gateway",
		[]Edit{{`			continue // with the slot
`, `			return l.Accept()
`}}, Catch{Pkg: "gateway", Test: "TestConnectionsOfOneAddressAreBounded", Says: "test hangs"},
	},
	{
		"gw-always-ready", "gateway/ready.go", "a gateway whose database is away is ready", "a balancer sends no clients there",
		[]Edit{{`	p.err, p.at = err, time.Now()
`, `	p.err, p.at = nil, time.Now()
`}}, inGateway("TestReady"),
	},
	{
		"gw-two-names-one-lock", "gateway/ask.go", "half a surrogate pair in a name is taken", "two names are two locks",
		[]Edit{{`	if strings.ContainsRune(a.name, utf8.RuneError) {`, `	if strings.ContainsRune(a.name, 0) {`}}, inGateway("TestBadInput"),
	},
	{
		"list-shows-bad-names", "inspect.go", "List shows a lock under a name that Inspect refuses", "one document of somebody else's blinds nobody",
		[]Edit{{`cmp.Or(v.Malformed, ValidateName(v.Name))`, `cmp.Or(v.Malformed, nil)`}}, Catch{Pkg: ".", Test: "TestListTellsBadNames"},
	},
}
