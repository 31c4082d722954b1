package queue

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// The writes of the lock document as aggregation pipelines. Each is one findAndModify or updateOne with a filter
// on _id (Settle adds conditions on the same document), so each is one atomic step on the server. Every string that
// comes from a user goes through $literal: in a pipeline "$x" is otherwise the path of a field.

type doc = bson.D

func op(name string, args ...any) doc { return doc{{Key: name, Value: bson.A(args)}} }

func cond(test, yes, no any) doc { return op("$cond", test, yes, no) }

func orElse(field string, v any) bson.E {
	return bson.E{Key: field, Value: op("$ifNull", "$"+field, v)}
}

func set(fields ...bson.E) doc { return doc{{Key: "$set", Value: bson.D(fields)}} }

func to(field string, v any) bson.E { return bson.E{Key: field, Value: v} }

// numbersPerMilli is how far apart the first numbers of two documents of one name are, for each millisecond between
// their creations: a document that was collected or dropped and made anew starts above all numbers of the old
// one as long as fewer than a million numbers a second were issued (I5 across drops).
const numbersPerMilli = 1024

// baseExpr is where the numbers of a new document start. $$CLUSTER_TIME does not go back when the clock of a new
// primary is behind; its unit is a second, so within the second $$NOW refines it. A standalone server knows only $$NOW.
func baseExpr(clusterTime bool) any {
	now := any(doc{{Key: "$toLong", Value: "$$NOW"}})
	if clusterTime {
		// $toLong refuses a timestamp; $dateAdd takes one and gives a date.
		asDate := doc{{Key: "$dateAdd", Value: doc{
			{Key: "startDate", Value: "$$CLUSTER_TIME"}, {Key: "unit", Value: "millisecond"}, {Key: "amount", Value: 0},
		}}}
		now = op("$max", now, doc{{Key: "$toLong", Value: asDate}})
	}
	return op("$multiply", now, int64(numbersPerMilli))
}

// slots is how many arrivals a lock document remembers, each the newest of the processes that share the slot. It bounds
// the document: with it, an arrival whose reply was lost can be asked for again and is not made twice, unless another
// process of the same slot has arrived in between.
const slots = 16

// slotOf is the slot of an arrival.
func slotOf(a Arrival) string { return "s" + strconv.FormatUint(a.Owner%slots, 10) }

// arrivePipeline makes the document if it is missing. Then, when the shape agrees and admit holds, and the slot does not show that
// this very arrival was made before, it issues the numbers. It never leaves the document as it was, but for a refusal: the
// acknowledgement of a write that changed nothing would be no proof, so a repeat counts itself.
func (c *Collections) arrivePipeline(shape Shape, a Arrival, admit any) mongo.Pipeline {
	slot := "last." + slotOf(a)
	repeat := op("$eq", "$"+slot+".mark", a.Mark)
	agrees := op("$eq", "$permits", shape.Permits)
	if shape.Kind == KindSemaphore {
		agrees = op("$and", op("$or", agrees, op("$eq", "$managed", true)), op("$lte", a.weight(), "$permits"))
	}
	match := op("$and",
		op("$eq", "$kind", literal(string(shape.Kind))),
		agrees,
		op("$lte", "$v", int32(SchemaVersion)),
		op("$not", repeat),
		admit,
	)
	refused := any("$idleSince")
	if shape.Kind == KindSemaphore {
		// The document may have been made for one that asks for too much.
		refused = cond(op("$and", op("$eq", "$settled", "$issued"), op("$ne", "$managed", true)), "$$NOW", op("$ifNull", "$idleSince", "$$REMOVE"))
	}
	when := func(field string, yes any) bson.E { return to(field, cond("$fresh", yes, "$"+field)) }
	return append(c.makePipeline(shape),
		set(to("fresh", match)),
		set(
			when("issued", op("$add", "$issued", a.Units)),
			when("arrivals", op("$add", "$arrivals", int64(1))),
			when("grace", graceExpr(a)),
			to("idleSince", cond("$fresh", "$$REMOVE", refused)),
			to(slot, cond("$fresh",
				arrivedExpr(a),
				cond(repeat, op("$mergeObjects", "$"+slot, doc{to("asked", op("$add", "$"+slot+".asked", int64(1)))}),
					op("$ifNull", "$"+slot, "$$REMOVE")))),
			to("fresh", "$$REMOVE"),
		),
	)
}

// makePipeline makes the document if it is missing.
func (c *Collections) makePipeline(shape Shape) mongo.Pipeline {
	return mongo.Pipeline{
		set(
			orElse("v", int32(SchemaVersion)),
			orElse("kind", literal(string(shape.Kind))),
			orElse("permits", shape.Permits),
			orElse("issued", baseExpr(c.clusterTime)),
			orElse("done", bson.A{}),
			orElse("arrivals", int64(0)),
			orElse("reached", int64(0)),
			orElse("calls", int64(0)),
			orElse("grace", int64(0)),
		),
		// Of an old document these exist; of a new one issued is still the base.
		set(orElse("settled", "$issued"), orElse("frontier", op("$add", "$issued", "$permits"))),
	}
}

// beyondFrontier is how many numbers there would be beyond the frontier after an arrival.
func beyondFrontier(a Arrival) doc {
	return op("$subtract", op("$add", "$issued", a.Units), "$frontier")
}

// withinLimit is whether an arrival leaves no more than its limit waiting: of the numbers beyond the frontier those that were not
// given up. A range in done is on one side of the frontier, which passes over what is settled.
func withinLimit(a Arrival) any {
	if a.Limit == 0 {
		return true
	}
	gone := reduce(filter("$done", op("$gt", "$$t.lo", "$frontier")), int64(0),
		op("$add", "$$value", op("$add", op("$subtract", "$$this.hi", "$$this.lo"), int64(1))))
	return op("$lte", op("$subtract", beyondFrontier(a), gone), a.Limit)
}

// arriveAgainPipeline is arrivePipeline where the document exists, has the shape and does not know the arrival.
func arriveAgainPipeline(a Arrival) mongo.Pipeline {
	return mongo.Pipeline{set(
		to("issued", op("$add", "$issued", a.Units)),
		to("arrivals", op("$add", "$arrivals", int64(1))),
		to("grace", graceExpr(a)),
		to("idleSince", "$$REMOVE"),
		to("last."+slotOf(a), arrivedExpr(a)),
	)}
}

// graceExpr is the longest grace of all who may have a number here without a ticket: a reaper waits that long (section
// "Orphan numbers" of package reaper). It shrinks only when nobody is there.
func graceExpr(a Arrival) doc {
	return op("$max", a.Grace.Milliseconds(), cond(op("$eq", "$settled", "$issued"), int64(0), "$grace"))
}

// arrivedExpr is what the slot keeps of an arrival.
func arrivedExpr(a Arrival) doc {
	return doc{to("mark", a.Mark), to("hi", op("$add", "$issued", a.Units)), to("arrival", op("$add", "$arrivals", int64(1))), to("asked", int64(1))}
}

// settlePipeline is Reference.Settle.
func settlePipeline(ranges []Range, arrival int64) mongo.Pipeline {
	return append(absorbPipeline(ranges),
		set(to("was", "$frontier"), to("frontier", op("$max", "$frontier", frontierExpr()))),
		set(append(leftExpr("$was", "$frontier", arrival), to("told", toldExpr()),
			// Nobody collects what was decided by hand.
			to("idleSince", cond(op("$and", op("$eq", "$settled", "$issued"), op("$ne", "$managed", true)), "$$NOW", "$$REMOVE")),
			to("was", "$$REMOVE"))...),
	)
}

// absorbPipeline takes ranges into done, and what touches settled into that.
func absorbPipeline(ranges any) mongo.Pipeline {
	first := op("$arrayElemAt", "$done", 0)
	field := func(of any, name string) doc {
		return doc{{Key: "$getField", Value: doc{{Key: "field", Value: name}, {Key: "input", Value: of}}}}
	}
	return mongo.Pipeline{
		set(to("done", reduce(ranges, "$done", unionExpr("$$value", "$$this")))),
		// What was settled already comes off first. Ranges in done have no neighbours, so only the first of the rest can
		// touch settled. When there is none the comparison with a missing value is true and $max ignores it.
		set(to("done", filter("$done", op("$gt", "$$t.hi", "$settled")))),
		set(to("settled", cond(op("$lte", field(first, "lo"), op("$add", "$settled", int64(1))),
			op("$max", "$settled", field(first, "hi")), "$settled"))),
		set(to("done", filter("$done", op("$gt", "$$t.hi", "$settled")))),
	}
}

// toldExpr is settled and frontier in one field, as of the last time that the frontier went up from $was by a pipeline other than
// settleFrontPipeline. An event shows the fields that have changed; when numbers are settled out of order settled has not, and the event would
// not say of which document its frontier is: this one or one that was made anew under the name (package waiter).
func toldExpr() doc {
	return cond(op("$gt", "$frontier", "$was"), tellExpr(), op("$ifNull", "$told", "$$REMOVE"))
}

// tellExpr is toldExpr of a change that must be heard of whether or not it moves the frontier.
func tellExpr() doc {
	return op("$concat", doc{{Key: "$toString", Value: "$settled"}}, " ", doc{{Key: "$toString", Value: "$frontier"}})
}

// settleFrontPipeline is settlePipeline where settled is r.Lo-1, done is empty and issued at least r.Hi.
func settleFrontPipeline(shape Shape, r Range, arrival int64) mongo.Pipeline {
	frontier := r.Hi + shape.Permits
	return mongo.Pipeline{set(append(leftExpr("$frontier", frontier, arrival),
		to("idleSince", cond(op("$eq", r.Hi, "$issued"), "$$NOW", "$$REMOVE")),
		to("settled", r.Hi),
		to("frontier", op("$max", "$frontier", frontier)),
	)...)}
}

// leftExpr is what each settle notes beside the numbers: whether it admitted somebody who was waiting, which is so when the frontier
// went up from was to frontier and numbers above was had been issued; and the newest arrival.
func leftExpr(was, frontier any, arrival int64) []bson.E {
	calls := op("$and", op("$gt", frontier, was), op("$gt", "$issued", was))
	return []bson.E{
		to("calls", cond(calls, op("$add", "$calls", int64(1)), "$calls")),
		to("calledAt", cond(calls, "$$NOW", op("$ifNull", "$calledAt", "$$REMOVE"))),
		to("reached", op("$max", "$reached", arrival)),
	}
}

func reduce(input, initial, in any) doc {
	return doc{{Key: "$reduce", Value: doc{
		{Key: "input", Value: input}, {Key: "initialValue", Value: initial}, {Key: "in", Value: in},
	}}}
}

func filter(input, cond any) doc {
	return doc{{Key: "$filter", Value: doc{
		{Key: "input", Value: input}, {Key: "as", Value: "t"}, {Key: "cond", Value: cond},
	}}}
}

// unionExpr is union: what lies wholly before r, then r grown by all it touches, then what lies wholly after.
func unionExpr(done, r string) doc {
	lo, hi := r+".lo", r+".hi"
	before := op("$lt", "$$t.hi", op("$subtract", lo, int64(1)))
	after := op("$gt", "$$t.lo", op("$add", hi, int64(1)))
	touched := doc{{Key: "$let", Value: doc{
		{Key: "vars", Value: doc{to("touch", filter(done, op("$not", op("$or", before, after))))}},
		{Key: "in", Value: doc{
			to("lo", op("$min", lo, doc{{Key: "$min", Value: "$$touch.lo"}})),
			to("hi", op("$max", hi, doc{{Key: "$max", Value: "$$touch.hi"}})),
		}},
	}}}
	return op("$concatArrays", filter(done, before), bson.A{touched}, filter(done, after))
}

// frontierExpr is frontier: the walk along done, with the answer in f as soon as a gap is wider than what is left.
func frontierExpr() doc {
	gap := op("$subtract", op("$subtract", "$$this.lo", int64(1)), "$$value.at")
	step := cond(op("$gt", gap, "$$value.left"),
		doc{to("at", "$$value.at"), to("left", "$$value.left"), to("stop", true)},
		doc{to("at", "$$this.hi"), to("left", op("$subtract", "$$value.left", gap)), to("stop", false)},
	)
	walk := reduce("$done", doc{to("at", "$settled"), to("left", "$permits"), to("stop", false)},
		cond("$$value.stop", "$$value", step))
	return doc{{Key: "$let", Value: doc{
		{Key: "vars", Value: doc{to("end", walk)}},
		{Key: "in", Value: op("$add", "$$end.at", "$$end.left")},
	}}}
}
