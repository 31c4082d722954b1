package replset

// awaitStop does nothing: macOS stops a process before kill returns to the
// sender, for all the tests here can tell.
func awaitStop(*process) error { return nil }
