// Package stats makes figures from the records of contenders of one lock.
//
// # Definitions
//
//	grant       an acquisition whose Lock returned inside the window
//	wait        from Asked to Granted of a grant, but for the first of each contender: all of them ask at the same moment
//	            when the run begins, so that these waits tell the rank and not the queue
//	hand-off    from Unlocking of one grant to Granted of the next in order of Granted, if anybody waited at Unlocking; "to
//	            another" if the next is another contender than the last
//	overtaken   by a grant: the waiters who were not yet granted and whose place was acknowledged (Queued) before the one who
//	            is granted had asked. Of a client that does not know when its place was acknowledged, and of a wait
//	            that nobody acknowledged: those who had asked [Grace] earlier
//	inversion   a grant that overtakes somebody
//	Jain        Jain's index of fairness of the grants of all contenders: 1 if all got the same, 1/n if one got all. Whole grants
//	            cannot always be split evenly: JainBest is the highest index that this many grants allow
//
// # Checks
//
// What a contender sees of its hold lies inside the true hold: Granted is stamped after the grant and Unlocking before the release.
// So no two may overlap, and of a client that has tokens they must rise with the grants. What breaks this is counted in Overlaps and
// Disorder, which must be 0 for a lock that works.
package stats
