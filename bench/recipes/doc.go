// Package recipes is the four ways to lock with MongoDB from which the project started (all but Redlock, which is redsync's), each as
// its source describes it: try, and on failure sleep and try again. They are the baseline that fairlock is measured against.
//
//	mongo-exists  a document that exists is a lock that is held: insert it, delete it. A TTL index on lockedAt frees those of the dead
//	mongo-state   documents made beforehand; one update takes a lock that is free or whose time is over
//	mongo-spin    insert of a unique key, at most MaxTries times; then "busy", and the caller asks anew
//	mongo-modify  findAndModify on {isLocked, lockedBy, expiresAt}; only the owner may release
//
// Each comes with a sleep between tries of 1, 50 and 100 ms, as "mongo-exists-1ms". All write with the concerns of fairlock: majority,
// journaled. None renews, none has a token; the benchmark never holds for longer than they lock.
package recipes
