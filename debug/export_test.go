package debug

import "time"

// SetPatience sets how long a client may take to read.
func (h *Handler) SetPatience(d time.Duration) { h.patience = d }

// SetClock sets the time that a Recorder goes by.
func (r *Recorder) SetClock(now func() time.Time) {
	r.now.Store(&now)
}
