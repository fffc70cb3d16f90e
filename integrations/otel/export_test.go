package kvsteerotel

import "github.com/kvsteer/kvsteer"

// UnderWay counts the requests of which something is kept.
func (t *Tracer) UnderWay() int {
	n := 0
	t.calls.Range(func(any, any) bool { n++; return true })
	return n
}

// Clip is clip.
func Clip(s string) string { return clip(s) }

// Service is service.
func Service(at *kvsteer.Target) string { return service(at) }
