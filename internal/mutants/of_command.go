package mutants

func inCommand(test string) Catch { return Catch{Pkg: "cmd/fairlock", Test: test} }

var ofCommand = []Mutant{
	{
		"run-guard-without-clock", "cmd/fairlock/run_guard.go", "the guard waits for fairlock's death alone", "a command is gone before the lease ends, also when fairlock is stopped",
		[]Edit{{`		left := until.left()
`, `		left := max(until.left(), tick)
`}}, inCommand("TestLostWhileStopped"),
	},
	{
		"run-guard-sees-its-group", "cmd/fairlock/run_guard.go", "the guard kills its process group alone", "what has left the group is the command's too",
		[]Edit{{`		if os.Getppid() == parent {
			killOffspring(parent, others)
		}
`, ``}}, inCommand("TestLostWhileStopped"),
	},
	{
		"run-guard-is-hasty", "cmd/fairlock/run_hold.go", "the command's time ends with the stop of fairlock", "a short stop costs nothing",
		[]Edit{{`until.allow(now, left+h.grace()+4*h.tick)`, `until.allow(now, min(left, 1)+h.grace()+4*h.tick)`}}, inCommand("TestLostWhileStopped"),
	},
	{
		"run-guard-is-put-off", "cmd/fairlock/run_hold.go", "the command's time is moved on after the loss", "a fairlock that hangs elsewhere leaves the command to the guard",
		[]Edit{{`left > 0 || first`, `left >= 0 || first`}}, inCommand("TestLostWhileMute"),
	},
	{
		"run-guard-leaves-early", "cmd/fairlock/run_child.go", "the guard ends when the command has ended", "what the command has started can still be there",
		[]Edit{{`func (c *child) gone() bool {
`, `func (c *child) gone() bool {
	c.guard.end()
`}}, inCommand("TestGuardedWhileGoing/stopped"),
	},
	{
		"run-kills-others", "cmd/fairlock/run_child.go", "all children of the process count as the command's", "a shell can have started something before it became fairlock",
		[]Edit{{`, others: childrenOf(os.Getpid())}`, `}`}}, inCommand("TestOthersChildren/by fairlock"),
	},
}
