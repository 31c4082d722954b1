package mutants

// onServer compares the pipelines with queue.Reference on a real server: the catcher of most faults in them. The seed is fixed, so
// that a mutant is caught or not, and a failing example is neither shrunk nor kept.
var onServer = Catch{
	Pkg: "integration", Test: "TestPipelinesAgreeWithReference",
	Args: []string{"-rapid.seed=1", "-rapid.shrinktime=1ms", "-rapid.nofailfile"},
}

func integration(test string) Catch { return Catch{Pkg: "integration", Test: test} }

func inQueue(test string) Catch { return Catch{Pkg: "queue", Test: test} }

var ofQueue = []Mutant{
	// The arrival.
	{
		"enqueue-twice", "queue/locks.go", "the usual arrival does not look for its own mark", "a repeated arrival issues once (I1)",
		[]Edit{{`		{Key: "last." + slotOf(a) + ".mark", Value: bson.D{{Key: "$ne", Value: a.Mark}}},
`, ``}}, onServer,
	},
	{
		"mark-ignored", "queue/pipeline.go", "the whole arrival pipeline issues numbers again for a mark that it knows", "a repeated arrival issues once (I1)",
		[]Edit{{`		op("$not", repeat),
`, ``}}, onServer,
	},
	{
		"mark-of-another", "queue/locks.go", "whatever arrival the slot shows is taken for one's own", "numbers belong to one arrival (I1)",
		[]Edit{{`!ok || last.Mark != a.Mark`, `!ok`}}, onServer,
	},
	{
		"repeat-changes-nothing", "queue/pipeline.go", "an arrival that is found again leaves the document as it was",
		"an acknowledged write that changed nothing proves nothing",
		[]Edit{{`op("$add", "$"+slot+".asked", int64(1))`, `"$" + slot + ".asked"`}}, integration("TestRepeatedArrivalChangesTheDocument"),
	},
	{
		"try-overtakes", "queue/locks.go", "a try takes a number whatever the frontier is", "a try never overtakes, and takes no number when refused",
		[]Edit{{`op("$lte", op("$add", "$issued", a.Units), "$frontier")`, `true`}}, onServer,
	},
	{
		"try-needs-room", "queue/locks.go", "a try of the last free units is refused", "a try takes what is free",
		[]Edit{{`op("$lte", op("$add", "$issued", a.Units), "$frontier")`, `op("$lt", op("$add", "$issued", a.Units), "$frontier")`}}, onServer,
	},
	{
		"shape-unread", "queue/pipeline.go", "an arrival with other permits takes its number and is refused afterwards", "a mismatch takes no number",
		[]Edit{{`	agrees := op("$eq", "$permits", shape.Permits)`, `	agrees := op("$gte", "$permits", int64(1))`}}, onServer,
	},
	{
		"shape-unread-again", "queue/locks.go", "the usual arrival does not compare permits", "a mismatch takes no number",
		[]Edit{{`		{Key: "permits", Value: shape.Permits},
		{Key: "v", Value: SchemaVersion},`, `		{Key: "v", Value: SchemaVersion},`}}, onServer,
	},
	{
		"newer-schema-taken", "queue/pipeline.go", "numbers are taken of a document of a newer schema", "a document of a newer schema is left alone",
		[]Edit{{`		op("$lte", "$v", int32(SchemaVersion)),
`, ``}}, integration("TestNewerSchemaIsRefused"),
	},
	{
		"numbers-from-zero", "queue/pipeline.go", "the numbers of a document that is made anew start at 0", "tokens grow across drops (I5)",
		[]Edit{{`orElse("issued", baseExpr(c.clusterTime))`, `orElse("issued", int64(0))`}}, integration("TestNumbersGoOnAfterDrop"),
	},
	{
		"arrives-idle", "queue/pipeline.go", "an arrival leaves the document marked as idle, for the TTL index", "a document in use is not collected (I2)",
		[]Edit{{`		to("idleSince", "$$REMOVE"),
`, ``}}, onServer,
	},
	{
		"grace-of-the-newest", "queue/pipeline.go", "a shorter grace replaces a longer one while its owner waits",
		"a reaper waits as long as any owner may trust a number without a ticket (I3)",
		[]Edit{{`return op("$max", a.Grace.Milliseconds(), cond(op("$eq", "$settled", "$issued"), int64(0), "$grace"))`,
			`return doc{{Key: "$literal", Value: a.Grace.Milliseconds()}}`}}, integration("TestGraceIsTheLongestOfThoseWhoWait"),
	},

	// The settle.
	{
		"calls-skipped", "queue/pipeline.go", "a settle that admits somebody does not count in calls", "the settle is the wake-up (I7)",
		[]Edit{{`to("calls", cond(calls, op("$add", "$calls", int64(1)), "$calls"))`, `to("calls", "$calls")`}}, onServer,
	},
	{
		"calls-for-nobody", "queue/pipeline.go", "every settle that moves the frontier counts in calls", "only those who wait are woken",
		[]Edit{{`op("$and", op("$gt", frontier, was), op("$gt", "$issued", was))`, `op("$gt", frontier, was)`}}, onServer,
	},
	{
		"frontier-ignores-done", "queue/pipeline.go", "the frontier does not pass over numbers that were settled out of order",
		"the definition of frontier (I2); a cancelled waiter blocks those behind",
		[]Edit{{`op("$max", "$frontier", frontierExpr())`, `op("$max", "$frontier", op("$add", "$settled", "$permits"))`}}, onServer,
	},
	{
		"frontier-goes-back", "queue/pipeline.go", "the cheap settle sets the frontier without looking at the old one", "frontier never decreases (I2)",
		[]Edit{{`to("frontier", op("$max", "$frontier", frontier))`, `to("frontier", frontier-1)`}}, onServer,
	},
	{
		"done-not-joined", "queue/pipeline.go", "ranges that follow one another are not joined in done", "done is sorted, disjoint and without neighbours",
		[]Edit{{`op("$lt", "$$t.hi", op("$subtract", lo, int64(1)))`, `op("$lt", "$$t.hi", lo)`}}, onServer,
	},
	{
		"idle-too-soon", "queue/pipeline.go", "each settle marks the document as idle", "a document in use is not collected",
		[]Edit{{`cond(op("$and", op("$eq", "$settled", "$issued"), op("$ne", "$managed", true)), "$$NOW", "$$REMOVE")`, `"$$NOW"`}}, onServer,
	},
	{
		"settle-makes-a-document", "queue/locks.go", "the settle is an upsert", "a missing document is a dropped lock",
		[]Edit{{`c.locks.UpdateOne(ctx, f, settlePipeline(ranges, arrival))`,
			`c.locks.UpdateOne(ctx, f, settlePipeline(ranges, arrival), options.UpdateOne().SetUpsert(true))`}}, integration("TestSettleNeverMakesADocument"),
	},
	{
		"settle-is-always-fresh", "queue/locks.go", "a settle of settled numbers is reported as the one that settled them", "a lock that others settled was lost",
		[]Edit{{`		{Key: "$or", Value: open},
`, ``}}, onServer,
	},
	{
		"settle-of-the-unissued", "queue/locks.go", "numbers that the document has not issued are settled in it", "a number is settled only by its owner (I3)",
		[]Edit{{`		{Key: "issued", Value: bson.D{{Key: "$gte", Value: last}}},
`, ``}}, integration("TestSettleOfNumbersNotIssued"),
	},
	{
		"front-over-done", "queue/locks.go", "the cheap settle does not ask that nothing was settled out of order", "settled and done (I2)",
		[]Edit{{`		{Key: "done", Value: bson.A{}},
`, ``}}, onServer,
	},
	{
		"front-from-behind", "queue/locks.go", "the cheap settle settles all before its range", "a number is settled only by its owner (I3)",
		[]Edit{{`		{Key: "settled", Value: r.Lo - 1},
`, ``}}, onServer,
	},
	{
		"reference-frontier", "queue/ranges.go", "the frontier stops at a gap that just fits", "the definition of frontier (I2), in the reference",
		[]Edit{{`if gap > left {`, `if gap >= left {`}}, inQueue("TestFrontier"),
	},
	{
		"gaps-overlap", "queue/ranges.go", "a range that lies inside another opens a gap again", "gaps are numbers without a ticket (I3)",
		[]Edit{{`		if h.Hi < at {
			continue
		}
`, ``}}, inQueue("TestSubtract"),
	},

	// Concerns and outcomes.
	{
		"write-concern-1", "queue/collections.go", "writes are acknowledged by the primary alone", "a grant rests on what a majority has",
		[]Edit{{`W: writeconcern.WCMajority`, `W: 1`}}, integration("TestOddClient"),
	},
	{
		"no-journal", "queue/collections.go", "writes are acknowledged before they are on disk", "a grant rests on what a majority has on disk",
		[]Edit{{`journal := true`, `journal := false`}}, integration("TestOddClient"),
	},
	{
		"read-concern-local", "queue/collections.go", "reads show what can be rolled back", "a grant rests on what a majority has",
		[]Edit{{`readconcern.Majority()`, `readconcern.Local()`}}, integration("TestAbsenceIsReadLinearizably"),
	},
	{
		"gone-by-a-majority-read", "queue/locks.go", "the read that proves absence is not linearizable", "absence is proved only by a linearizable read",
		[]Edit{{`readconcern.Linearizable()`, `readconcern.Majority()`}}, integration("TestAbsenceIsReadLinearizably"),
	},
	{
		"failed-concern-is-final", "queue/outcome.go", "a failed write concern counts as a refusal", "its outcome is unknown",
		[]Edit{{`we.WriteConcernError != nil {
		return false`, `we.WriteConcernError != nil {
		return true`}}, inQueue("TestPermanent"),
	},
	{
		"stepdown-is-final", "queue/outcome.go", "an election counts as a refusal for good", "a refusal that ends by itself is repeated",
		[]Edit{{`	189,   // PrimarySteppedDown
`, ``}}, inQueue("TestPermanent"),
	},
	{
		"collects-the-young", "queue/locks.go", "idle documents are deleted at once", "a document is kept for a day",
		[]Edit{{`op("$subtract", "$$NOW", idleDays.Milliseconds())`, `"$$NOW"`}}, integration("TestCollect"),
	},

	// Tickets and tombstones.
	{
		"no-tombstone", "queue/tickets.go", "Bury writes no tombstone, and believes the read that shows no ticket", "the tombstone decides (I3)",
		[]Edit{
			{`if err := c.insertTombstones(ctx, name, Range{lo, min(g.Hi, lo+999)}); err != nil {`, `if err := ctx.Err(); err != nil {`},
			{`Subtract(unticketed, dead)`, `Subtract(unticketed, append(dead, unticketed))`},
		}, integration("TestTicketsAndTombstones"),
	},
	{
		"buried-under-a-ticket", "queue/tickets.go", "Bury reports the numbers of a range whose ticket begins before the gap",
		"a number with a ticket is settled only after its session ended (I3)",
		[]Edit{{`Subtract(g, live)`, `Subtract(g, live[:0])`}}, integration("TestTicketsAndTombstones"),
	},
	{
		"ticket-over-tombstone", "queue/tickets.go", "a late ticket replaces the tombstone", "the unique _id decides between owner and reaper (I3)",
		[]Edit{{`mine := bson.D{{Key: "_id", Value: t.ID}, {Key: "session", Value: t.Session}}`, `mine := bson.D{{Key: "_id", Value: t.ID}}`}},
		integration("TestTicketsAndTombstones"),
	},
	{
		"tombstone-unnoticed", "queue/tickets.go", "a late ticket that met a tombstone is reported as written", "the unique _id decides between owner and reaper (I3)",
		[]Edit{{`return ErrTombstone`, `return nil`}}, integration("TestTicketsAndTombstones"),
	},
	{
		"label-is-code", "queue/tickets.go", "labels are written without $literal", "strings of users are data",
		[]Edit{{`labels = append(labels, doc{{Key: "$literal", Value: l}})`, `labels = append(labels, l)`}}, integration("TestTicketsAndTombstones"),
	},
}
