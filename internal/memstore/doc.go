// Package memstore is fairlock's database in memory, for tests: one [Server], and a [Client] for each process that uses it.
// A client has the three sides that the actors need: [Client.Queue] is a queue.Store, [Client.Sessions] a reaper.Sessions and
// [Client.Source] a waiter.Source.
//
// # What it is true to
//
// Each call is one atomic step on the server, as a single-document write of MongoDB is; Bury alone is two, tombstones and then the
// read, with a hook between. Lock documents are [queue.Reference], which the integration tests compare with the pipelines of the
// real store, together with the slots by which a repeated arrival is known. A stream delivers what came after its
// opening began, and only events that admit somebody or delete a document; the read of an opening shows the state at
// its beginning, which is the oldest that the real one can show.
//
// # What it can be made to do
//
//   - [Client.Hook] fails, delays or blocks calls before they take effect, or after it, when only the reply is lost.
//   - [Client.Steer] does so with all calls in one place, and with [Later] lets a write take effect after its caller gave up.
//   - [Client.Deliver] drops and repeats stream events; [Client.KillStreams] ends streams with an error.
//   - [Client.Freeze] makes a client read the past, as from a server that does not know yet that it is no longer the
//     primary: reads are old, and so are answers of writes that would change nothing there, until another write was acknowledged. Gone and writes that do change
//     something are not served by such a server. Openings and streams are not affected.
//   - [Server.DropLock], [Server.DropTicket], [Server.DropSession] and [Server.DropLocks] delete documents.
//
// # Time
//
// The server's clock is the function it is given. Calls block only in hooks, and Next on a channel and a timer of package time, so
// everything works inside a bubble of testing/synctest. [Clock] is a process's clock, which can also be made to
// jump, as over a sleep that no timer has noticed, and to stand while the process is stopped.
package memstore
