package reaper

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fairlock/fairlock/queue"
)

// mostBeat bounds beats: a third of the shortest lease for each lasts longer than anything.
const mostBeat = int64(1) << 60

// decodeSession is strict in what evidence rests on, and forgiving in what is for people. The field ended ends a session whatever
// it holds, since no renewal matches from then on.
func decodeSession(raw bson.Raw) (Session, error) {
	var s Session
	var ok bool
	if err := raw.Validate(); err != nil { // a lookup in broken bytes can panic
		return Session{}, queue.Malformed("session", "", "%v", err)
	}
	if s.ID, ok = raw.Lookup("_id").StringValueOK(); !ok || s.ID == "" {
		return Session{}, queue.Malformed("session", s.ID, "_id must be a string and not empty")
	}
	_, err := raw.LookupErr("ended")
	s.Ended = err == nil
	var beat, ttl, expires bool
	s.Beat, beat = queue.Integer(raw.Lookup("beat"))
	s.TTLMS, ttl = queue.Integer(raw.Lookup("ttl"))
	s.ExpiresAt, expires = raw.Lookup("expiresAt").TimeOK()
	switch {
	case s.Ended:
	case !beat || s.Beat < 0 || s.Beat > mostBeat:
		return Session{}, queue.Malformed("session", s.ID, "beat is %d, must be from 0 to %d", s.Beat, mostBeat)
	case !ttl || s.TTLMS < 1 || s.TTLMS > queue.MostLease.Milliseconds():
		return Session{}, queue.Malformed("session", s.ID, "ttl is %d ms, must be from 1 ms to %v", s.TTLMS, queue.MostLease)
	case !expires:
		return Session{}, queue.Malformed("session", s.ID, "expiresAt must be a date")
	}
	s.StartedAt, _ = raw.Lookup("startedAt").TimeOK()
	s.Host, s.Label = queue.Text(raw.Lookup("host")), queue.Text(raw.Lookup("label"))
	pid, _ := queue.Integer(raw.Lookup("pid"))
	s.PID = int(pid)
	if at, ok := raw.Lookup("endedAt").TimeOK(); ok {
		s.EndedAt = &at
	}
	s.Cleared, _ = raw.Lookup("cleared").BooleanOK()
	return s, nil
}

// decodeForced reads what Tell has left. What it has not left is passed over: it only ever makes a holder stop.
func decodeForced(raw bson.Raw) (all []Forced) {
	if raw.Validate() != nil {
		return nil
	}
	list, _ := raw.Lookup("forced").ArrayOK()
	values, _ := list.Values()
	for _, v := range values[max(len(values)-mostForced, 0):] {
		d, ok := v.DocumentOK()
		if !ok {
			continue
		}
		lock, isText := d.Lookup("lock").StringValueOK()
		if token, isNumber := queue.Integer(d.Lookup("token")); isText && isNumber {
			all = append(all, Forced{lock, token})
		}
	}
	return all
}

// noArray: all other conditions are also true of an array in which they are true of an element.
var noArray = bson.E{Key: "$not", Value: bson.D{{Key: "$type", Value: "array"}}}

// wellFormed is decodeSession's rule as a filter, of a session that has not ended.
var wellFormed = bson.D{
	{Key: "beat", Value: bson.D{{Key: "$type", Value: bson.A{"int", "long"}}, {Key: "$gte", Value: 0}, {Key: "$lte", Value: mostBeat}, noArray}},
	{Key: "ttl", Value: bson.D{{Key: "$type", Value: bson.A{"int", "long"}}, {Key: "$gte", Value: 1}, {Key: "$lte", Value: queue.MostLease.Milliseconds()}, noArray}},
	{Key: "expiresAt", Value: bson.D{{Key: "$type", Value: "date"}, noArray}},
}
