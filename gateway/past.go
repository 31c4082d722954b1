package gateway

import (
	"container/list"
	"time"
)

// keepOver is how long a lease that is over is kept.
const keepOver = time.Minute

// retired is a lease that is over, and since when.
type retired struct {
	lease *lease
	at    time.Time
}

// past has the leases that are over and kept, at most a number of them. When there is one more, the oldest of the client that has most goes: a client that
// ends many does not make the gateway forget those of another that has ended fewer.
type past struct {
	most int
	all  *list.List            // of retired, oldest first
	of   map[string]*list.List // of their elements in all, by client, oldest first
}

func newPast(most int) *past { return &past{most: most, all: list.New(), of: map[string]*list.List{}} }

// add takes one in. drop is one that has to go for it, or nil.
func (p *past) add(l *lease, now time.Time) (drop *lease) {
	client := l.key.client
	own := p.of[client]
	if own == nil {
		own = list.New()
		p.of[client] = own
	}
	own.PushBack(p.all.PushBack(retired{l, now}))
	if p.all.Len() <= p.most {
		return nil
	}
	for c, theirs := range p.of { // at equal numbers whoever adds
		if theirs.Len() > p.of[client].Len() {
			client = c
		}
	}
	return p.oldest(client)
}

// old takes out one that was kept for long enough, or returns nil.
func (p *past) old(now time.Time) *lease {
	first := p.all.Front()
	if first == nil {
		return nil
	}
	r := first.Value.(retired)
	if now.Sub(r.at) < keepOver {
		return nil
	}
	return p.oldest(r.lease.key.client)
}

// oldest takes out the oldest of a client that has one.
func (p *past) oldest(client string) *lease {
	own := p.of[client]
	r := p.all.Remove(own.Remove(own.Front()).(*list.Element)).(retired)
	if own.Len() == 0 {
		delete(p.of, client)
	}
	return r.lease
}
