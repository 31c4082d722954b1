package lab

import "github.com/fairlock/fairlock/integration/faults"

// Rows are the faults of this package. They need [Enter]; outside, or where a tool cannot be had, a run of them ends with the reason as its error.
func Rows() []faults.Row {
	return []faults.Row{
		partitionPrimary(), partitionPeers(), partitionClient(),
		slowMembers(), slowClients(),
		clockClient(), clockPrimary(), clockFailover(),
		diskFull(), diskSlow(),
	}
}
