package lab

// Sweep is sweep.
var Sweep = sweep
