package trtllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

// answer is what one poll brought.
type answer struct {
	events []event
	bad    int
	err    error
	// torn: the engine may have given out events that did not arrive.
	torn bool
}

// poll asks once, with a bound on time and size.
func (s *source) poll(ctx context.Context) answer {
	ctx, cancel := context.WithTimeout(ctx, orDefault(s.t.Timeout, DefaultTimeout))
	defer cancel()
	a := s.ask(ctx, s.method)
	var status statusError
	if errors.As(a.err, &status) && status == http.StatusMethodNotAllowed {
		// Frontends differ; the other method may be the right one.
		other := http.MethodGet
		if s.method == http.MethodGet {
			other = http.MethodPost
		}
		if b := s.ask(ctx, other); b.err == nil || b.torn {
			s.method = other
			return b
		}
	}
	return a
}

// statusError is an answer other than 200.
type statusError int

func (e statusError) Error() string {
	switch int(e) {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Sprintf("status %d; is this a TensorRT-LLM server, and is event_buffer_max_size set?", int(e))
	default:
		return fmt.Sprintf("status %d", int(e))
	}
}

var errNoList = errors.New("the answer is not a JSON list; is this a TensorRT-LLM server?")

func (s *source) ask(ctx context.Context, method string) answer {
	req, err := http.NewRequestWithContext(ctx, method, s.url, http.NoBody)
	if err != nil {
		return answer{err: err}
	}
	if s.t.Prepare != nil {
		s.t.Prepare(req)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		var op *net.OpError
		return answer{err: err, torn: !errors.As(err, &op) || op.Op != "dial"}
	}
	body, err := readReply(resp, s.t.maxReply())
	if resp.StatusCode != http.StatusOK {
		// An engine that failed may have done so after it had emptied its buffer.
		return answer{err: statusError(resp.StatusCode), torn: resp.StatusCode >= http.StatusInternalServerError}
	}
	a := answer{}
	how, bad := split(body, func(ev event) { a.events = append(a.events, ev) })
	a.bad = bad
	switch {
	case err != nil:
	case how == endNoList:
		err = errNoList
	case how == endCutOff:
		err = io.ErrUnexpectedEOF
	}
	a.err, a.torn = err, err != nil
	return a
}

// errTooLong: the numbers will show what is missing.
var errTooLong = errors.New("the answer is longer than MaxReply")

// readReply returns what there is of a body, with the error that ended it early.
func readReply(resp *http.Response, most int64) ([]byte, error) {
	const believed = 1 << 20 // a length that is only announced takes no more memory
	var b []byte
	if n := resp.ContentLength; n > 0 && n < believed {
		b = make([]byte, 0, n+1) // the byte more lets the end be seen without growing
	}
	b, err := readAll(io.LimitReader(resp.Body, most+1), b)
	closeErr := resp.Body.Close()
	switch {
	case err != nil:
		return b, err
	case int64(len(b)) > most:
		return b[:most], errTooLong
	default:
		return b, closeErr
	}
}

// readAll is io.ReadAll into a buffer that may have room.
func readAll(r io.Reader, b []byte) ([]byte, error) {
	const least = 4096
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, least)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// pauseAfter is how long to wait after so many failures in a row: from the
// interval on it doubles, up to a tenth of the patience.
func (s *source) pauseAfter(failures int) time.Duration {
	const mostDoublings, part = 6, 10
	pause := s.t.interval()
	if failures == 0 {
		return pause
	}
	most := max(pause, s.patience/part)
	return min(pause<<min(failures-1, mostDoublings), most)
}
