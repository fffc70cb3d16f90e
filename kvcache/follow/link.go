package follow

import (
	"context"
	"sync"
	"time"
)

// linkPatience is how long the first check of a connection waits for its link: a
// replay that is asked for before leaves out what is published in between.
const linkPatience = time.Second

// look asks a connection that is not up yet whether it is now. The channel is
// closed when it is worth asking again; nil means never.
func (f *Follower) look(conn Conn) <-chan struct{} {
	if f.up {
		return nil
	}
	l := conn.Link()
	if l.Up {
		f.linked()
		return nil
	}
	if l.Err != nil {
		f.fault = l.Err
		if f.patient {
			f.patient, f.nextCheck = false, time.Now() // replays may work even so
		}
	}
	return l.Changed
}

// linked notes that the subscription is in force. Only a replay that begins now
// shows that nothing was missed until now.
func (f *Follower) linked() {
	f.up, f.fault, f.patient = true, nil, false
	f.nextCheck, f.askAgain, f.pause = time.Now(), time.Time{}, 0
	if !f.heard || !f.replays() {
		return
	}
	f.unproven, f.confirm = true, true
	f.rebase()
}

// rebase makes the latest message that was applied the one to be proven, unless
// an older one is still waiting for its proof.
func (f *Follower) rebase() {
	if f.placed && f.next > 0 && f.base == nil {
		last := f.last
		f.base = &last
	}
}

// listen receives until duties have something to do or changed is closed.
func (f *Follower) listen(conn Conn, changed <-chan struct{}) error {
	ctx, cancel := f.untilDuty()
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	if changed != nil {
		watch.Go(func() { cancelOn(ctx, changed, cancel) })
	}
	return f.receive(ctx, conn)
}

func cancelOn(ctx context.Context, changed <-chan struct{}, cancel context.CancelFunc) {
	select {
	case <-changed:
		cancel()
	case <-ctx.Done():
	}
}
