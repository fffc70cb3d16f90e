package fleettest

import (
	"net/http"
	"sync"
	"time"
)

// Request is what the engine saw of one API request.
type Request struct {
	// At is when its body had been read.
	At     time.Time
	Method string
	Path   string
	Header http.Header
	// Body is exactly what was received.
	Body []byte
	// Model is the model name in the body, "" if it could not be read.
	Model string
	// Status is the answer's status, 0 while there is none.
	Status int
	// Rank is the data-parallel rank that served it, -1 if none did.
	Rank int
	// PromptTokens and CachedTokens count its (first) prompt; CachedTokens is -1
	// until it is scheduled.
	PromptTokens, CachedTokens int
}

// recorder keeps the latest requests.
type recorder struct {
	mu       sync.Mutex
	max      int
	requests []*Request // oldest first
	total    int
	inFlight int
	most     int
}

// begin notes that a request has arrived, and end that it is over.
func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	r.inFlight++
	r.most = max(r.most, r.inFlight)
}

func (r *recorder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
}

// add records a request whose body has been read.
func (r *recorder) add(hr *http.Request, raw []byte) *Request {
	rec := &Request{
		At: time.Now(), Method: hr.Method, Path: hr.URL.Path, Header: hr.Header.Clone(),
		Body: raw, Rank: -1, CachedTokens: -1,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.max == 0 {
		return rec
	}
	if len(r.requests) == r.max {
		r.requests[0] = nil
		r.requests = r.requests[1:]
	}
	r.requests = append(r.requests, rec)
	return rec
}

// update changes a record.
func (r *recorder) update(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// list returns copies of the records, oldest first.
func (r *recorder) list() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Request, len(r.requests))
	for i, rec := range r.requests {
		list[i] = *rec
	}
	return list
}
