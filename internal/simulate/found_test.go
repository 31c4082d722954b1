package simulate

// found are seeds that have found something, in fairlock or in the simulator itself, with what it was.
var found = []struct {
	seed int64
	plan func(int64) Plan // of its time
	what string
}{
	{100582, PlainPlan, "a new lock document began among the numbers of the one before: the time of the simulated cluster stood still between two new documents"},
	{200856, PlainPlan, "a number was issued twice: locks were deleted while the server's clock was behind the cluster's time, a known hole"},
	{208245, PlainPlan, "of a run whose front had been trimmed, a void arrival's numbers were taken off twice: who stood behind was never granted"},
	{208193, PlainPlan, "a reaper was closed between the tombstone and the settle of a dead sweeper's number, with nobody left to go on"},
	{502703, UsersPlan, "an arrival that nobody waited for any more was still on its way when the last process closed, and took effect after that: the simulator's"},
	{689, NewPlan, "ForceUnlock of a number with a tombstone divided by its weight, which was 0 in the store in memory and is 1 from a server"},
	{67, PlainPlan, "a ticket written late, of a lock that was deleted by hand, was taken for something left over"},
}
