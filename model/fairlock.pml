/* The protocol of fairlock as built, for spin. README.md says what is modelled, what is not, and what was found.

   One step is one write on one document of the database, or one local step under a line's mutex. Requests, replies and
   reads may be delayed for ever: a write commits long after it was sent, and facts that only grow (settled, frontier, an
   ended session, a tombstone) may be acted on at any later time, which is the same as having read them late.

   Time is two booleans. trusts p: session p is trusted by its owner. grace k: less than ttl - margin has passed since
   arrival k was sent. Each may turn false at any moment, and a reaper may end a session, or bury a number, only when it
   is false. That is all that clocks guarantee: trust counts from the sending and ends margin early, a reaper's watch
   begins after the commit and lasts ttl (package reaper, "Evidence").

   Callers are claims, numbered in the order in which they were issued. Arrival k is C claims of one process, C*(k-1)+1
   to C*k; a claim of process p is W(p) consecutive numbers. Tombstones are written claim by claim. */

#ifndef P
#define P 2            /* processes */
#endif
#ifndef A0
#define A0 2           /* arrivals of process 0, those after a void included */
#endif
#ifndef A1
#define A1 2           /* of process 1 */
#endif
#if P > 2
#ifndef A2
#define A2 1
#endif
#else
#define A2 0
#endif
#ifndef C
#define C 1            /* claims in an arrival */
#endif
#ifndef PERMITS
#define PERMITS 1
#endif
#ifndef W0
#define W0 1           /* units of a claim of process 0 */
#endif
#ifndef W1
#define W1 1           /* of the others */
#endif
#ifndef SESSIONS
#define SESSIONS 2     /* of a process, one after the other; 1 or 2 */
#endif
#ifndef TRY
#define TRY 0          /* bit p: process p only tries */
#endif
#ifndef LOST
#define LOST 0         /* 1: replies of arrivals get lost, and all processes share one slot of the lock document */
#endif
#ifndef STRAY
#define STRAY 0        /* arrivals that commit when their process has long given them up */
#endif
#ifndef STALE
#define STALE 0        /* 1: reapers also write tombstones at numbers that have been settled, having read an old document */
#endif
#ifndef FULL
#define FULL 0         /* 1: also follow tickets and tombstones of numbers that nobody stands behind */
#endif
#ifndef CRASH
#define CRASH 1        /* 1: processes die */
#endif
#ifndef LAPSES
#define LAPSES 0       /* how often leases lapse in all; 0: without limit */
#endif

#define NA (A0+A1+A2+STRAY)
#define NC (NA*C)

#define IN(set, i)   ((set >> (i)) & 1)
#define ADD(set, i)  set = set | (1 << (i))
#define DEL(set, i)  set = set & ~(1 << (i))

/* ---- events, counted over all transitions of the search, so that a run without errors is not an empty one ---- */
c_decl {
	static unsigned long seen[32];
	static int reported;
	static const char *events[32] = { "grant", "passed inside the process", "units held by two", "run of two arrivals",
		"reaper ends a session", "reaper clears a ticket", "tombstone", "reaper buries a number", "ticket meets tombstone",
		"ticket too late", "late ticket committed", "grant under second session", "lost reply repeated", "slot overwritten",
		"arrival given up", "try admitted", "try refused", "cancelled", "lost while held", "given back by void with its run",
		"garbage ticket deleted", "reply after session's end", "settled out of order", "ticket deleted before last settle",
		"trimmed", "crash", "tombstone under a ticket", "void by what the lock document shows" };
	static void report(void) { int i; if (reported++) return; for (i = 0; events[i]; i++) printf("event %lu %s\n", seen[i], events[i]); }
}
#define SEEN(e) c_code { seen[e]++; }
#define TELL(text, x) c_code { if (readtrail) printf("    " text "\n", x); }   /* when a trail is replayed by pan -r */
#define E_GRANT 0
#define E_PASS 1
#define E_TWO 2
#define E_JOIN 3
#define E_END 4
#define E_CLEAR 5
#define E_TOMB 6
#define E_BURY 7
#define E_DUP 8
#define E_LATE 9
#define E_STRAYTICKET 10
#define E_AGAIN 11
#define E_REPEAT 12
#define E_FORGOT 13
#define E_GAVEUP 14
#define E_TRY 15
#define E_BUSY 16
#define E_CANCEL 17
#define E_LOSE 18
#define E_WASHELD 19
#define E_GARBAGE 20
#define E_ENDEDASK 21
#define E_DONE 22
#define E_EARLYDROP 23
#define E_TRIM 24
#define E_CRASH 25
#define E_UNDER 26
#define E_TOLD 27

/* ---- the database ---- */
byte issued, low, front;      /* the lock document: issued, settled, frontier */
short fin;                    /* numbers that are settled: those up to low, and done */
byte last;                    /* the newest arrival in the slot (LOST) */
byte arrivals;
byte who[NA+1];               /* the process of an arrival */
short second;                 /* arrivals made under the second session of their process */
short ticket;                 /* arrivals whose ticket stands */
short tomb;                   /* claims at which tombstones stand */
byte ended, cur;              /* processes: the newest session is ended; the newest session is the second */

/* ---- what reapers know for ever ---- */
short dead;                   /* claims at which a tombstone and no ticket was seen */

/* ---- time ---- */
byte trusts;
short grace;

/* ---- inside processes ---- */
byte crashed, out;            /* out: its last session is over */
byte left[P];                 /* arrivals still to make */
byte ask[P];                  /* the arrival that is committed and not answered, or 0 */
byte mute;                    /* its reply was lost */
byte at[NC+1];                /* first number of a claim */
byte st[NC+1];                /* state of a claim */
#define OVER 0
#define QUEUED 1
#define HELD 2
#define GONE 3                /* held and lost, and not given back yet */
short given;                  /* claims whose settle was sent */
byte root[NA+1];              /* the first arrival of an arrival's run; 0: not answered */
short head;                   /* runs of which a claim was granted */
byte put[NA+1];               /* the ticket, as its owner knows it */
#define NONE 0                /* not committed; perhaps on its way */
#define WRITTEN 1             /* committed, and not acknowledged */
#define STANDING 2            /* acknowledged in time */
byte strays, lapses;

/* ---- derived: the claims that their process may grant as far as the database goes ---- */
short can;

hidden byte i, n, r, cap, use, was, room, f;   /* scratch */
hidden byte waits, held;

#define W(p)        ((p) == 0 -> W0 : W1)
#define ARR(j)      (((j)-1)/C+1)
#define FIRST(k)    (((k)-1)*C+1)
#define OWNER(j)    who[ARR(j)]
#define UNITS(j)    W(OWNER(j))
#define SETTLED(j)  IN(fin, at[j])
#define MASK(k)     (((1 << C) - 1) << FIRST(k))       /* the claims of arrival k */
#define ALLGIVEN(k) ((given & MASK(k)) == MASK(k))
#if C == 1
#define ALLSETTLED(k)  SETTLED(FIRST(k))
#define SOMESETTLED(k) SETTLED(FIRST(k))
#elif C == 2
#define ALLSETTLED(k)  (SETTLED(FIRST(k)) && SETTLED(FIRST(k)+1))
#define SOMESETTLED(k) (SETTLED(FIRST(k)) || SETTLED(FIRST(k)+1))
#endif
#define THISSESSION(k) (IN(second, k) == IN(cur, who[k]))
#define SESSIONOVER(k) (!THISSESSION(k) || IN(ended, who[k]))

/* Lock.trusted */
#ifdef BUG_GRACE
#define TRUSTED(k) ((put[k] == STANDING && IN(trusts, who[k]) && THISSESSION(k)) || (put[k] != STANDING && IN(grace, k)))
#else
#define TRUSTED(k) (IN(trusts, who[k]) && THISSESSION(k) && (put[k] == STANDING || IN(grace, k)))
#endif

/* A held claim that is no longer trusted is lost, and stays so. */
inline judge() {
	i = 1;
	do
	:: i <= NC && st[i] == HELD && !TRUSTED(ARR(i)) -> st[i] = GONE; SEEN(E_LOSE); i++
	:: i <= NC && !(st[i] == HELD && !TRUSTED(ARR(i))) -> i++
	:: else -> break
	od
}

/* Forgets what can have no effect on anybody's trust, so that states that differ in nothing else are one (FULL: only what
   can have no effect at all). Numbers that nobody stands behind, for they were given back, or their process has died or does not
   know them, may be settled at any time, by whomever: what becomes of their tickets and tombstones need not be followed.
   An idle process may as well be trusted; one that will do nothing more may as well be dead. */
inline tidy() {
	n = 0;
	do
	:: n < P ->
		held = (ask[n] == 0); i = 1;
		do
#if FULL
		:: i <= arrivals -> held = held && (who[i] != n || (ALLGIVEN(i) && ALLSETTLED(i))); i++
#else
		:: i <= arrivals -> held = held && (who[i] != n || ALLGIVEN(i)); i++
#endif
		:: else -> break
		od;
		if
		:: held && !IN(crashed, n) && (left[n] == 0 || IN(out, n)) ->
			ADD(crashed, n); DEL(trusts, n); DEL(cur, n); ADD(ended, n); DEL(out, n); left[n] = 0
		:: held && !IN(crashed, n) && left[n] > 0 && !IN(out, n) ->
			ADD(trusts, n); DEL(ended, n)
		:: else
		fi;
		n++
	:: else -> break
	od;
	i = 1;
	do
	:: i <= arrivals ->
#if FULL
		if
		:: ALLSETTLED(i) && (ALLGIVEN(i) || IN(crashed, who[i])) -> DEL(grace, i); DEL(second, i)
		:: else
		fi;
		if
		:: IN(crashed, who[i]) ->
			DEL(grace, i); DEL(head, i);
			if :: put[i] == STANDING -> put[i] = WRITTEN :: else fi;
			if :: root[i] != 0 -> root[i] = i :: else fi;
			if :: ALLSETTLED(i) -> given = given | MASK(i); root[i] = (put[i] == NONE -> root[i] : 0) :: else fi
		:: else
		fi;
#else
		if
		:: IN(crashed, who[i]) || (root[i] == 0 && ask[who[i]] != i) ->
			given = given | MASK(i); DEL(head, i); root[i] = 0
		:: else
		fi;
		if
		:: ALLGIVEN(i) || ALLSETTLED(i) ->
			DEL(ticket, i); put[i] = WRITTEN; tomb = tomb & ~MASK(i); dead = dead & ~MASK(i)
		:: else
		fi;
		if
		:: ALLGIVEN(i) -> DEL(grace, i); DEL(second, i)
		:: else
		fi;
#endif
		i++
	:: else -> break
	od
}

/* Whether the numbers of claim i, if the frontier is at or above them, are units that the run may use. Those given back are not.
   Nor, with several permits, are those of an arrival that is not trusted: a reaper may have settled them out of order, and
   the frontier passed over them for that. (With one permit what is looked at is settled + 1, which is not settled.) */
#ifdef BUG_GIVEN
#define COUNTS(i) 1
#elif PERMITS == 1 || defined(BUG_BURIED)
#define COUNTS(i) !IN(given, i)
#else
#define COUNTS(i) (!IN(given, i) && (put[ARR(i)] == STANDING || IN(grace, ARR(i))))
#endif

/* line.capacity and line.admitRun: of each run the first waiting claim, if it fits whole. */
#if PERMITS == 1 && !defined(BUG_FRONT)
#define KNOWN (low + 1)
#else
#define KNOWN front
#endif
inline look() {
	tidy();
	can = 0; n = 1;
	do
	:: n > NC -> break
	:: n <= NC && st[n] != QUEUED -> n++
	:: n <= NC && st[n] == QUEUED ->
		r = root[ARR(n)]; cap = 0; use = 0; i = 1; room = 1;
		do
		:: i > arrivals*C -> break
		:: i <= arrivals*C && root[ARR(i)] != r -> i++
		:: i <= arrivals*C && root[ARR(i)] == r ->
			if :: i < n && st[i] == QUEUED -> room = 0 :: else fi;
			if :: st[i] >= HELD -> use = use + UNITS(i) :: else fi;
			if :: KNOWN >= at[i] && COUNTS(i) ->
				cap = cap + (KNOWN - at[i] + 1 < UNITS(i) -> KNOWN - at[i] + 1 : UNITS(i))
			:: else fi;
			i++
		od;
#if PERMITS == 1
		if :: IN(head, r) -> cap = 1 :: else fi;
#endif
		if :: room && use + UNITS(n) <= cap -> ADD(can, n) :: else fi;
		n++
	od
}

/* Reference.Settle for one claim, and I2. */
inline absorb() {
	was = front;
#ifdef BUG_STUCK
	/* settled moves with the number that is settled now and forgets what was cancelled ahead of it */
	if :: low < issued && IN(fin, low+1) -> low++ :: else fi;
#else
	do :: low < issued && IN(fin, low+1) -> low++ :: else -> break od;
#endif
	f = low; room = PERMITS;
	do
	:: f < issued && IN(fin, f+1) -> f++
	:: f < issued && !IN(fin, f+1) && room > 0 -> f++; room--
	:: else -> break
	od;
	if :: f == issued -> f = f + room :: else fi;
#ifdef BUG_COUNT
	f = front + use;      /* every settled unit lets one more in, also one that was never let in itself */
#endif
	front = (f > front -> f : front);
	if :: f != low + PERMITS -> SEEN(E_DONE) :: else fi;
#if !defined(BUG_COUNT) && !defined(BUG_STUCK)
	assert(front >= was);                                                                 /* I2: never decreases */
	i = low + 1; room = 0;
	do
	:: i > front -> break
	:: i <= front -> if :: i > issued || !IN(fin, i) -> room++ :: else fi; i++
	od;
	assert(room <= PERMITS && (front + 1 > issued || !IN(fin, front+1)) && room + 1 > PERMITS)  /* I2: the definition */
#endif
}
inline mark(j) {
	use = 0; i = at[j];
	do
	:: i < at[j] + UNITS(j) -> if :: !IN(fin, i) -> ADD(fin, i); use++ :: else fi; i++
	:: else -> break
	od
}

/* line.settleIdle, for run r: what nobody uses is given back once nobody of the run waits. */
inline idle() {
	waits = false; i = 1;
	do
	:: i <= arrivals*C -> waits = waits || (root[ARR(i)] == r && st[i] == QUEUED); i++
	:: else -> break
	od;
	i = 1;
	do
	:: i <= arrivals*C -> if :: !waits && root[ARR(i)] == r && st[i] == OVER -> ADD(given, i) :: else fi; i++
	:: else -> break
	od
}

/* line.release */
inline release(j) {
	st[j] = OVER; r = root[ARR(j)];
	idle(); look()
}

/* line.voidArrival; with one arrival in the run it is voidLocked. */
inline void(k) {
	r = root[k]; held = false; i = FIRST(k);
	do
	:: i < FIRST(k)+C -> held = held || st[i] >= HELD; st[i] = OVER; ADD(given, i); i++
	:: else -> break
	od;
#if PERMITS == 1
	if
	:: held ->
		DEL(head, r); i = 1;
		do
		:: i < FIRST(k) -> if :: root[ARR(i)] == r -> assert(st[i] == OVER); ADD(given, i); SEEN(E_WASHELD) :: else fi; i++
		:: else -> break
		od
	:: else
	fi;
#endif
	idle(); look()
}

/* line.voidLocked, where the lock document shows a number as settled that this process has not given back */
inline voidrun(j) {
	r = root[ARR(j)]; i = 1;
	do
	:: i <= arrivals*C -> if :: root[ARR(i)] == r -> st[i] = OVER; ADD(given, i) :: else fi; i++
	:: else -> break
	od;
	look()
}

/* Collections.arrive: numbers are issued and the mark remembered. */
inline issue(p) {
	arrivals++; who[arrivals] = p; ADD(grace, arrivals); i = FIRST(arrivals);
	if :: IN(cur, p) -> ADD(second, arrivals) :: else fi;
	do
	:: i < FIRST(arrivals)+C -> at[i] = issued+1; issued = issued + W(p); i++
	:: else -> break
	od;
#if LOST
	last = arrivals
#endif
}

inline grant(j) {
	st[j] = HELD; SEEN(E_GRANT);
	if :: IN(head, root[ARR(j)]) -> SEEN(E_PASS) :: else fi;
	if :: IN(second, ARR(j)) -> SEEN(E_AGAIN) :: else fi;
	ADD(head, root[ARR(j)]);
#ifndef HOLDERS
	assert(!SETTLED(j));                                             /* I4: never a settled one */
#endif
	use = 0; i = 1;
	do
	:: i <= NC -> if :: st[i] == HELD -> use = use + UNITS(i); if :: i != j && OWNER(i) != OWNER(j) -> SEEN(E_TWO) :: else fi :: else fi; i++
	:: else -> break
	od;
	assert(use <= PERMITS);                                          /* I4 */
#if PERMITS == 1 && !defined(HOLDERS)
	i = 1;                                                           /* I5: nothing before j can be granted after it */
	do
	:: i < j -> assert(SETTLED(i) || (root[ARR(i)] == root[ARR(j)] && st[i] != QUEUED && st[i] != HELD)); i++
	:: else -> break
	od;
#endif
	look()
}

/* line.placed. A reply that comes when the session is over brings void numbers. */
inline place(p) {
	f = ask[p]; ask[p] = 0; DEL(mute, p);
	assert(root[f] == 0 && who[f] == p);                             /* I1: issued to one process, once */
	root[f] = f;
	if
	:: !THISSESSION(f) || IN(out, p) ->
		SEEN(E_ENDEDASK);
		given = given | MASK(f)
	:: else ->
		if
		:: f > 1 && who[f-1] == p && root[f-1] != 0 && IN(second, f) == IN(second, f-1) ->
			r = root[f-1]; i = 1; held = false;                           /* joinRun, unless all of it is given back */
			do
			:: i < FIRST(f) -> held = held || (root[ARR(i)] == r && !IN(given, i)); i++
			:: else -> break
			od;
			if :: held -> root[f] = r; SEEN(E_JOIN) :: else fi
		:: else
		fi;
		i = FIRST(f);
		do
		:: i < FIRST(f)+C -> st[i] = QUEUED; i++
		:: else -> break
		od;
		look();
		if
		:: IN(TRY, p) ->
			n = FIRST(f);
			if
			:: IN(can, n) && TRUSTED(f) -> SEEN(E_TRY); grant(n)
			:: else -> st[n] = OVER; r = root[f]; idle(); look()
			fi
		:: else
		fi
	fi
}

/* I4 and I3 where somebody else settles claim j. */
#ifdef HOLDERS            /* of a mutant, to see too many holders and not what leads to them */
#define MAYSETTLE(j)
#else
#define MAYSETTLE(j) assert(st[j] != HELD)
#endif

#define EACHPROC(S) S(0) S(1) PROC3(S)
#if P > 2
#define PROC3(S) S(2)
#else
#define PROC3(S)
#endif
#if NA == 2
#define EACHARRIVAL(S) S(1) S(2)
#elif NA == 3
#define EACHARRIVAL(S) S(1) S(2) S(3)
#elif NA == 4
#define EACHARRIVAL(S) S(1) S(2) S(3) S(4)
#elif NA == 5
#define EACHARRIVAL(S) S(1) S(2) S(3) S(4) S(5)
#elif NA == 6
#define EACHARRIVAL(S) S(1) S(2) S(3) S(4) S(5) S(6)
#endif
#if NC == 2
#define EACHCLAIM(S) S(1) S(2)
#elif NC == 3
#define EACHCLAIM(S) S(1) S(2) S(3)
#elif NC == 4
#define EACHCLAIM(S) S(1) S(2) S(3) S(4)
#elif NC == 5
#define EACHCLAIM(S) S(1) S(2) S(3) S(4) S(5)
#elif NC == 6
#define EACHCLAIM(S) S(1) S(2) S(3) S(4) S(5) S(6)
#elif NC == 8
#define EACHCLAIM(S) S(1) S(2) S(3) S(4) S(5) S(6) S(7) S(8)
#endif

#define QUIET (low == issued && ticket == 0 && tomb == 0)

/* ---- what processes do by themselves. Each step is progress: there are finitely many of each. ---- */

#if LOST
#define ANSWER(p) \
	:: d_step { ask[p] != 0 && !IN(mute, p) -> TELL("process %d: reply", p); place(p); skip } \
	:: d_step { ask[p] != 0 && IN(mute, p) && MARKED(p) -> TELL("process %d: repeats an arrival and finds its mark", p); SEEN(E_REPEAT); REPEATED(p); place(p); skip } \
	:: d_step { ask[p] != 0 && IN(mute, p) && !MARKED(p) && left[p] > 0 -> TELL("process %d: repeats an arrival, slot overwritten", p); \
		SEEN(E_FORGOT); left[p]--; issue(p); ask[p] = arrivals; DEL(mute, p) } \
	:: d_step { ask[p] != 0 && IN(mute, p) && !IN(grace, ask[p]) -> TELL("process %d: gives its arrival up", p); SEEN(E_GAVEUP); ask[p] = 0; DEL(mute, p) }
#ifdef BUG_MARK
#define MARKED(p) 1
#define REPEATED(p) ask[p] = last       /* believes whatever arrival the slot shows */
#else
#define MARKED(p) (last == ask[p])
#define REPEATED(p) skip
#endif
#else
#define ANSWER(p) :: d_step { ask[p] != 0 -> TELL("process %d: reply", p); place(p); skip }
#endif

#ifdef BUG_NOOP
#define RENEWABLE(p) 1                  /* a write that changes nothing is acknowledged by a server that was deposed */
#else
#define RENEWABLE(p) !IN(ended, p)
#endif

#define OWN(p) \
	ANSWER(p) \
	:: d_step { !IN(trusts, p) && !IN(crashed, p) && !IN(out, p) && RENEWABLE(p) -> TELL("process %d: renews", p); ADD(trusts, p) } \
	:: d_step { IN(ended, p) && !IN(crashed, p) && !IN(out, p) -> TELL("process %d: learns that its session is over", p); over(p); skip }

/* line.leaseMoved to Ended, and the next session. */
inline over(p) {
	i = 1;
	do
	:: i <= arrivals*C ->
		if
		:: OWNER(i) == p && root[ARR(i)] != 0 && THISSESSION(ARR(i)) -> st[i] = OVER; ADD(given, i)
		:: else
		fi;
		i++
	:: else -> break
	od;
	if
	:: IN(cur, p) || SESSIONS == 1 -> ADD(out, p)
	:: else -> ADD(cur, p); DEL(ended, p); ADD(trusts, p)
	fi;
	look()
}

#ifdef BUG_LATEACK
#define INTIME(k) 1
#define TOOLATE(k) 0
#else
#define INTIME(k) IN(grace, k)
#define TOOLATE(k) !IN(grace, k)
#endif
#define ALIVE(k) (root[k] != 0 && !IN(crashed, who[k]) && !ALLGIVEN(k))

/* keeper.put and its outcome. What was sent may commit when its process has given the number up, or has died. */
#define TICKET(k) \
	:: d_step { ALIVE(k) && put[k] == WRITTEN && INTIME(k) -> TELL("ticket of arrival %d: acknowledged", k); put[k] = STANDING; look(); skip } \
	:: d_step { ALIVE(k) && put[k] == NONE && IN(tomb, FIRST(k)) -> TELL("ticket of arrival %d: meets a tombstone", k); SEEN(E_DUP); void(k); skip } \
	:: d_step { ALIVE(k) && put[k] < STANDING && TOOLATE(k) -> TELL("ticket of arrival %d: too late", k); SEEN(E_LATE); void(k); skip } \
	:: d_step { IN(ticket, k) && ALLGIVEN(k) && SOMESETTLED(k) && !ALLSETTLED(k) -> TELL("ticket of arrival %d: deleted by its owner", k); SEEN(E_EARLYDROP); DEL(ticket, k) }
#define WRITE(k) \
	:: d_step { WRITES(k) && put[k] == NONE && root[k] != 0 && !IN(ticket, k) && !IN(tomb, FIRST(k)) -> TELL("ticket of arrival %d: committed", k); \
		if :: ALLSETTLED(k) -> SEEN(E_STRAYTICKET) :: else fi; ADD(ticket, k); put[k] = WRITTEN }

#define CLAIM(j) \
	:: d_step { IN(can, j) && TRUSTED(ARR(j)) -> TELL("claim %d: granted", j); grant(j); skip } \
	:: d_step { st[j] == HELD -> TELL("claim %d: unlocked", j); release(j); skip } \
	:: d_step { st[j] == GONE -> TELL("claim %d: given back, was lost", j); release(j); skip } \
	:: d_step { issued >= at[j] && low >= at[j] && !IN(given, j) && root[ARR(j)] != 0 && !IN(crashed, OWNER(j)) -> \
		SEEN(E_TOLD); TELL("claim %d: seen to be settled, its run is void", j); voidrun(j); skip } \
	:: d_step { IN(given, j) && !SETTLED(j) -> TELL("claim %d: settled by its owner", j); mark(j); absorb(); proved(j); look(); skip }

/* settleIdle's s.opens: when a run that has held the lock is settled, all before its end is. */
#if PERMITS == 1
#ifdef BUG_OPENS
#define OPENS(k) 1
#else
#define OPENS(k) IN(head, root[k])
#endif
inline proved(j) {
	if
	:: root[ARR(j)] != 0 && OPENS(ARR(j)) ->
		r = root[ARR(j)]; held = true; f = 0; i = 1;
		do
		:: i <= arrivals*C -> if :: root[ARR(i)] == r -> held = held && SETTLED(i) && IN(given, i); f = at[i] + UNITS(i) - 1 :: else fi; i++
		:: else -> break
		od;
		assert(!held || low >= f)
	:: else
	fi
}
#else
inline proved(j) { skip }
#endif

proctype owner() {
end:	do
	EACHPROC(OWN)
	EACHARRIVAL(TICKET)
#define WRITES(k) ALIVE(k)
	EACHARRIVAL(WRITE)
	EACHCLAIM(CLAIM)
	od
}

/* ---- what any number of reapers do, in any process. Evidence is permanent, so a reaper that stops between two steps, and
   another that goes on, is the same as one. ---- */

#define JUDGE(p) \
	:: d_step { !IN(trusts, p) && !IN(ended, p) && !IN(out, p) -> TELL("reaper: ends the session of process %d", p); SEEN(E_END); ADD(ended, p) }

inline settleall(k) {
	f = FIRST(k);
	do
	:: f < FIRST(k)+C -> MAYSETTLE(f); mark(f); f++
	:: else -> break
	od;
	absorb(); look()
}
#ifdef BUG_ABSENT
#define DEADSESSION(k) 1               /* a read did not show the session */
#else
#define DEADSESSION(k) SESSIONOVER(k)
#endif
#define CLEAR(k) \
	:: d_step { IN(ticket, k) && DEADSESSION(k) && !ALLSETTLED(k) -> TELL("reaper: settles arrival %d of a session that is over", k); SEEN(E_CLEAR); settleall(k); skip } \
	:: d_step { IN(ticket, k) && ALLSETTLED(k) -> TELL("reaper: deletes the ticket of arrival %d", k); SEEN(E_GARBAGE); DEL(ticket, k) }

#define GAP(j) (arrivals >= ARR(j) && !IN(grace, ARR(j)))
#define COVERED(j) IN(ticket, ARR(j))
#define HASTICKET(j) ((((j)-1) % C == 0) && COVERED(j))   /* the unique _id */
#if defined(BUG_NOBURY)
#define BURY(j)
#elif defined(BUG_NOTOMB)
#define BURY(j) \
	:: d_step { GAP(j) && !SETTLED(j) -> TELL("reaper: settles claim %d without a tombstone", j); SEEN(E_BURY); MAYSETTLE(j); mark(j); absorb(); look(); skip }
#else
#if C == 1
#define SEENDEAD(j) IN(tomb, j)         /* a tombstone keeps the ticket out */
#define WATCH(j)
#else
#define SEENDEAD(j) IN(dead, j)
#define WATCH(j) :: d_step { IN(tomb, j) && !COVERED(j) && !SETTLED(j) && !IN(dead, j) -> TELL("reaper: sees no ticket of claim %d, under a tombstone", j); ADD(dead, j) }
#endif
#define BURY(j) \
	:: d_step { GAP(j) && !IN(tomb, j) && !HASTICKET(j) && (STALE || !SETTLED(j)) -> TELL("reaper: tombstone at claim %d", j); \
		SEEN(E_TOMB); if :: COVERED(j) -> SEEN(E_UNDER) :: else fi; ADD(tomb, j) } \
	WATCH(j) \
	:: d_step { SEENDEAD(j) && !SETTLED(j) -> TELL("reaper: settles claim %d under a tombstone", j); SEEN(E_BURY); MAYSETTLE(j); mark(j); absorb(); look(); skip } \
	:: d_step { IN(tomb, j) && SETTLED(j) -> TELL("reaper: deletes the tombstone of claim %d", j); DEL(tomb, j); DEL(dead, j) }
#endif

proctype reaper() {
end:	do
	EACHPROC(JUDGE)
	EACHARRIVAL(CLEAR)
	EACHCLAIM(BURY)
	od
}

/* ---- time: no arrival may be trusted for ever without a ticket. ---- */
#define EXPIRE(k) \
	:: d_step { IN(grace, k) -> TELL("time: grace of arrival %d is over", k); DEL(grace, k); judge(); look(); skip }
proctype clock() {
end:	do
	EACHARRIVAL(EXPIRE)
	od
}

/* ---- what callers do, and what befalls processes. Nothing of it need ever happen. ---- */
#define ARRIVE(p) \
	:: d_step { !IN(crashed, p) && ask[p] == 0 && left[p] > 0 && !IN(out, p) && !IN(TRY, p) -> TELL("process %d: arrival", p); left[p]--; issue(p); ask[p] = arrivals }
#define TRIES(p) \
	:: d_step { IN(TRY, p) && !IN(crashed, p) && ask[p] == 0 && left[p] > 0 && !IN(out, p) && issued + C*W(p) <= front -> TELL("process %d: try", p); \
		left[p]--; issue(p); ask[p] = arrivals } \
	:: d_step { IN(TRY, p) && !IN(crashed, p) && ask[p] == 0 && left[p] > 0 && !IN(out, p) && issued + C*W(p) > front -> SEEN(E_BUSY) }
#if LAPSES
#define MAYLAPSE lapses < LAPSES
#define LAPSED lapses++
#else
#define MAYLAPSE true
#define LAPSED skip
#endif
#define LAPSE(p) :: d_step { IN(trusts, p) && MAYLAPSE -> TELL("process %d: lease lapses", p); LAPSED; DEL(trusts, p); judge(); skip }
#if LOST
#define MUTE(p) :: d_step { ask[p] != 0 && !IN(mute, p) -> TELL("process %d: reply lost", p); ADD(mute, p) }
#else
#define MUTE(p)
#endif
inline crash(p) {
	SEEN(E_CRASH);
	ADD(crashed, p); DEL(trusts, p); DEL(out, p); left[p] = 0; ask[p] = 0; DEL(mute, p); i = 1;
#if !FULL
	ADD(ended, p);              /* from now on a reaper may end the session, and only reapers care whether it has */
#endif
	do
	:: i <= arrivals*C ->
		if :: OWNER(i) == p -> st[i] = OVER :: else fi;
		i++
	:: else -> break
	od;
	look()
}
inline lose(p) {
	i = 1;
	do
	:: i <= arrivals*C ->
		if :: OWNER(i) == p && !SETTLED(i) -> DEL(given, i) :: else fi;
		i++
	:: else -> break
	od
}
#if CRASH
#define DIE(p) \
	:: d_step { !IN(crashed, p) -> TELL("process %d: dies", p); crash(p); skip } \
	LOSE(p)
#if FULL
#define LOSE(p) :: d_step { !IN(crashed, p) -> TELL("process %d: dies, and what it sent is lost", p); crash(p); lose(p); skip }
#else
#define LOSE(p)
#endif
#else
#define DIE(p)
#endif
#define BEFALL(p) ARRIVE(p) TRIES(p) LAPSE(p) MUTE(p) DIE(p)
#if C > 1
#define TRIM(k) :: d_step { root[k] == k && !ALLGIVEN(k) && st[FIRST(k)] == OVER && !IN(given, FIRST(k)) && !IN(crashed, who[k]) -> TELL("run %d: trimmed", k); trim(k); skip }
#else
#define TRIM(k)
#endif
/* line.trim, from the first claim of a run to before the first that is not over */
inline trim(k) {
	i = FIRST(k); held = false; f = 0;
	do
	:: i > arrivals*C -> break
	:: i <= arrivals*C && root[ARR(i)] == k && st[i] != OVER -> held = true; break
	:: i <= arrivals*C && root[ARR(i)] == k && st[i] == OVER -> f = i; i++
	:: i <= arrivals*C && root[ARR(i)] != k -> i++
	od;
	if
	:: held ->
		SEEN(E_TRIM); i = FIRST(k);
		do
		:: i <= f -> if :: root[ARR(i)] == k -> ADD(given, i) :: else fi; i++
		:: else -> break
		od;
		look()
	:: else
	fi
}
#define CANCEL(j) :: d_step { st[j] == QUEUED -> TELL("claim %d: cancelled", j); SEEN(E_CANCEL); release(j); skip }

proctype world() {
end:	do
	EACHPROC(BEFALL)
	EACHARRIVAL(TRIM)
#undef WRITES
#define WRITES(k) !ALIVE(k)
	EACHARRIVAL(WRITE)
	EACHCLAIM(CANCEL)
#if STRAY
	:: d_step { strays < STRAY -> TELL("process %d: a stray arrival", 0); strays++; issue(0); skip }
#endif
#ifdef LIVE
	:: low <= issued              /* always: fairness forces nothing here */
#endif
#ifdef ENDS
	:: break                      /* no more of it */
#endif
	od
}

#ifdef ENDS
/* When no process can do anything, all is as I6 and I8 say. Together with the absence of cycles that is liveness without the
   cost of fairness: a fair run, from the last thing that befalls on, goes on until nothing can be done. */
proctype stop() {
	timeout -> assert(QUIET)
}
#endif

init {
	atomic {
		c_code { atexit(report); };
		front = PERMITS; left[0] = A0; left[1] = A1;
#if P > 2
		left[2] = A2; 
#endif
		trusts = (1 << P) - 1;
		run owner(); run reaper(); run clock(); run world();
#ifdef ENDS
		run stop()
#else
		skip
#endif
	}
}

#ifdef LIVE
/* I6 and I8: in the end all numbers are settled, and no ticket and no tombstone is left. */
ltl settled { <> [] QUIET }
#endif
