// Package history judges what processes did with locks. Each records its calls, arrivals, grants and losses as [Event] on one clock
// that all share; [Check] proves of the whole, without knowing the protocol, what fairlock promises. The simulator, the fault
// runs and the tests of the fake use it.
//
// # What is proved
//
// A grant is trusted in a window: from the moment its caller had it in hand to the latest moment at which it knew that it
// still had it. Trusted events say how far it could have relied on it without asking again; a release cuts that short, for the
// units that it gives back. A loss does not, for the promise stands, unless somebody took locks away by hand (Options.Revoked).
//
//	exclusion   the units of windows that overlap are never more than the permits (I4)
//	tokens      no number is granted twice; windows of which one takes all permits are in the order of their numbers (I5), but for two of
//	            which the lower number can be one of documents that were dropped, and the other is not: its holder learns of that later
//	own         a token is of an arrival that the same process was acknowledged
//	arrivals    who was acknowledged before another sent has the lower numbers (I1)
//	order       whoever is granted has no more before it, unsettled for sure, than the permits leave room for: nobody is overtaken
//	stranded    every call of a process that lives has returned (I7)
//	together    LockAll grants all or none
//	final       who was told of a loss, of one lock of a set or of one by itself, is not told later that it holds that or another of the set
//
// A mutex is one permit, and a semaphore as many as it has. A read/write lock has queue.Readers permits, of which a reader takes one and a writer
// all: exclusion, tokens and order then say that nobody writes beside anybody, that tokens of writers are in order with all others, and
// that nobody passes a writer. Each lock of a set is a call of its own.
//
// What operators do is in the history too. A window that was ended by force ends there, whatever its holder knew: nobody else's does. Where
// permits were set, the numbers that were issued after that never have more than the most that there were since; those before may have had the
// permits of their time.
//
// What is left in the database (I8) and how long recovery took is for the caller; [Gap] helps with the latter.
//
// # Why the stamps are sound
//
// At is taken before a process does something and after it was told something, so a window is never longer in the
// history than it was: Granted after the call returned, Released before Unlock is called, Reduced before Release, Trusted before the question whose
// answer it tells. A process that is stopped between the two makes its windows shorter, never longer.
package history
