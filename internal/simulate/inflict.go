package simulate

import (
	"time"

	"github.com/fairlock/fairlock/internal/memstore"
)

// inflict does at its time what a fault needs somebody to do. The rest find those whom they hit, see active.
func (w *world) inflict(f *Fault, nth uint64) {
	time.Sleep(f.From)
	switch f.Kind {
	case Delete:
		w.remove(nth)
		return
	case Failover:
		time.Sleep(f.To - f.From)
		for _, p := range w.living() {
			p.client.KillStreams(memstore.ErrNoReply)
		}
		return
	}
	for slot := range w.plan.Procs {
		if f.Slot == slot || f.Slot == Everybody {
			if p := w.in(slot); p != nil {
				w.wg.Go(func() { w.strike(p, f) })
			}
		}
	}
}

func (w *world) strike(p *process, f *Fault) {
	w.tracef("process %d: %+v", p.id, *f)
	switch f.Kind {
	case Crash:
		p.mu.Lock()
		p.traps = append(p.traps, f)
		p.mu.Unlock()
		select {
		case <-p.gone:
			w.leave(p, f.For)
		case <-time.After(w.until(w.plan.Window)):
		}
	case Closing:
		p.close()
		w.leave(p, f.For)
	case Stale:
		p.client.Freeze()
		time.Sleep(f.To - f.From)
		p.client.Thaw()
	case Stopped:
		p.stop()
		time.Sleep(f.To - f.From)
		p.resume()
	case Jump:
		p.clk.Sleep(f.For)
	case Ended:
		p.client.KillStreams(memstore.ErrNoReply)
	case Force, Resize, Ask:
		w.operate(p, f)
	}
}

// remove deletes something by hand.
func (w *world) remove(nth uint64) {
	d := newDraw(uint64(w.plan.Seed), of("delete"), nth)
	switch w.plan.Deleted {
	case LockDocument:
		w.srv.DropLock(w.plan.Locks[d.n(len(w.plan.Locks))].Name)
	case LockCollection:
		w.srv.DropLocks()
	case TicketDocument:
		if all := w.srv.Tickets(); len(all) > 0 {
			w.srv.DropTicket(all[d.n(len(all))].ID)
		}
	case SessionDoc:
		if all := w.living(); len(all) > 0 {
			w.srv.DropSession(all[d.n(len(all))].m.Session())
		}
	}
}
