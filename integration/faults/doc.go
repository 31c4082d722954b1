// Package faults breaks things under load and proves that fairlock's promises held. A [Row] is one kind of fault; a run of it is
// real processes on real servers:
//
//	start or reuse the servers ► start the crew ► warm up to the gate ► fault, at seeded times ► heal ► recovered
//	► callers end ► the dead are cleared ► the database is quiet ► check everything ► one line of JSON
//
// # The crew
//
// Each process of the crew is this binary again ([WorkerMain]), with one manager. Its callers take locks in loops, or what else the row's
// [Workload] says: most wait, some only try, some are cancelled while they wait. A holder asks for its trust and then writes to the register of its lock, a document that
// refuses tokens older than the newest it has seen. The process writes what happened as [history.Event] to a file of its own, with
// one write for each, so that a killed process leaves all it knew. Arrivals are taken from the driver's command monitor: what the
// process sent and what the server answered, whatever fairlock made of it. All stamps are CLOCK_BOOTTIME, which the processes of one
// machine share and which no fault here touches.
//
// # What is checked
//
//   - history.Check over the events of all processes: exclusion, tokens, order and so on, but for the rules that a row
//     leaves out with its reason.
//   - The register of each lock, by porcupine: writes and linearizable reads must have an order in which no token is older than
//     one before it. A write whose answer never came may have happened at any later time, or not at all. Only who is alone writes:
//     semaphores and readers are judged by the units in the history.
//   - The database is quiet afterwards (I8) and no cursor of a change stream is left of a process that ended in order.
//   - No process has ended by itself: a panic or a deadlock is a violation.
//   - What the row expects, and each recovery within the row's bound.
//
// A run whose crew did not make [Row.Gate] grants a second right before the fault proves nothing: it is void, which is not passed.
//
// # Stamps of arrivals
//
// Sent is the stamp before the first command that carried the arrival's mark: of a repeat, by the driver or by fairlock, no
// earlier stamp exists, so the interval from Sent to At contains the moment of the commit whatever was lost in between. At is taken
// after the reply was read. Both ends are on the safe side for the check of order.
//
// # Processes
//
// All processes are in the group of a guard (internal/guard): they end with this one, also when they are stopped or this one is
// killed. Servers that a fault leaves healthy are used again by the next run.
package faults
