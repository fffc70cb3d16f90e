package debug

import "time"

// SetClock sets the time that a Recorder goes by.
func (r *Recorder) SetClock(now func() time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = now
}
