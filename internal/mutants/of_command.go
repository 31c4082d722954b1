package mutants

func inCommand(test string) Catch { return Catch{Pkg: "cmd/fairlock", Test: test} }

var ofCommand = []Mutant{
	{
		"run-guard-without-clock", "cmd/fairlock/run_guard.go", "the guard waits for fairlock's death alone", "a command is gone before the lease ends, also when fairlock is stopped",
		[]Edit{{`		left := until.left()
`, `		left := max(until.left(), period)
`}}, inCommand("TestLostWhileStopped"),
	},
	{
		"run-guard-sees-its-group", "cmd/fairlock/run_guard.go", "the guard kills its process group alone", "what has left the group is the command's too",
		[]Edit{{`	for os.Getppid() == parent && !killOffspring(parent, os.Getpid()) {
	}
`, `	_ = parent
`}}, inCommand("TestLostWhileStopped"),
	},
	{
		"run-guard-is-hasty", "cmd/fairlock/run_hold.go", "the command's time ends with the stop of fairlock", "a short stop costs nothing",
		[]Edit{{`until.allow(now, left+grace+4*h.tick)`, `until.allow(now, min(left, 1)+grace+4*h.tick)`}}, inCommand("TestLostWhileStopped"),
	},
	{
		"run-guard-is-put-off", "cmd/fairlock/run_hold.go", "the command's time is moved on after the loss", "a fairlock that hangs elsewhere leaves the command to the guard",
		[]Edit{{`if left := h.lock.Left(); left > 0 {`, `if left := h.lock.Left(); left >= 0 {`}}, inCommand("TestLostWhileMute"),
	},
}
