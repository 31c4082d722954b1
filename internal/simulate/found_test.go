package simulate

// found are seeds that have found something, in fairlock or in the simulator itself, with what it was.
var found = []struct {
	seed int64
	what string
}{
	{100582, "a new lock document began among the numbers of the one before: the time of the simulated cluster stood still between two new documents"},
	{200856, "a number was issued twice: locks were deleted while the server's clock was behind the cluster's time, a known hole"},
	{208245, "of a run whose front had been trimmed, a void arrival's numbers were taken off twice: who stood behind was never granted"},
	{208193, "a reaper was closed between the tombstone and the settle of a dead sweeper's number, with nobody left to go on"},
	{67, "a ticket written late, of a lock that was deleted by hand, was taken for something left over"},
}
