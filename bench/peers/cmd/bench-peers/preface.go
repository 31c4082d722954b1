package main

const preface = `
What most readers want is at the end, under [What a reader wants to know](#what-a-reader-wants-to-know).

Each contender is a process with a client of its own, which takes one lock again and again, without a pause. Everything shares one machine: take
the ratios. Floors are those of the contender's own server: a majority write of MongoDB, a Put of etcd; the others have none.

What a crash can take from a lock differs: etcd, ZooKeeper (three servers each) and MongoDB (a replica set of three, majority writes) have it on
two disks before they answer; Redis (one server, append-only file, fsync every second) may lose its last second; PostgreSQL (one server) keeps
advisory locks in memory.

Server operations are the server's own count of what clients sent: commands of Redis (those inside a script too), gRPC messages of etcd, packets
of ZooKeeper, all operation counters of MongoDB's primary. PostgreSQL counts none; its clients count their statements.
redisson-fair and curator-mutex are JVMs, 32 at most, with 6 s more to get warm than the others; that is still not a service that has run for hours.
`
