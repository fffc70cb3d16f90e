package providertest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Request is what the server saw of a request.
type Request struct {
	// At is when its body had been read.
	At           time.Time
	Method, Path string
	// Query is the URL's, without its question mark.
	Query  string
	Header http.Header
	// Body is exactly what was received.
	Body []byte
	// Model is the name that it asks for, in the body or, of Azure, in the path.
	Model string
	// Stream says whether it asks for one, Images how many it shows.
	Stream bool
	Images int
	// InputTokens are its words.
	InputTokens int64
	// Status is that of the answer, 0 while there is none. Problem is why it was refused
	// by the checks, "" if it was not.
	Status  int
	Problem string

	// body is Body as JSON, with numbers as they were written.
	body map[string]any
}

// Requests are those that were received so far, oldest first, with copies of what may
// still change.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Request, len(s.requests))
	for i, r := range s.requests {
		list[i] = *r
	}
	return list
}

// Last is the request that was received last; the zero Request if there is none.
func (s *Server) Last() Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		return Request{}
	}
	return *s.requests[len(s.requests)-1]
}

// Forget drops the requests that were received so far.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

func (s *Server) record(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

// change changes a request that others may be looking at.
func (s *Server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// parse reads the body as a JSON object. ok is false if it is none.
func (r *Request) parse() (ok bool) {
	d := json.NewDecoder(bytes.NewReader(r.Body))
	d.UseNumber()
	if d.Decode(&r.body) != nil || r.body == nil || d.More() {
		return false
	}
	if model, is := r.body["model"].(string); is {
		r.Model = model
	}
	r.Stream, _ = r.body["stream"].(bool)
	for _, key := range []string{"messages", "system", "prompt", "input", "instructions"} {
		r.measure(r.body[key])
	}
	return true
}

// measure counts the words and images of a part of a prompt.
func (r *Request) measure(v any) {
	switch v := v.(type) {
	case string:
		r.InputTokens += words(v)
	case []any:
		for _, e := range v {
			r.measure(e)
		}
	case map[string]any:
		switch kind, _ := v["type"].(string); kind {
		case "image_url", "input_image", "image":
			r.Images++
			return
		default:
		}
		for key, e := range v {
			switch key {
			case "type", "role", "id", "tool_call_id", "tool_use_id", "signature", "cache_control":
			default:
				r.measure(e)
			}
		}
	default:
	}
}

func words(s string) int64 { return int64(len(strings.Fields(s))) }
