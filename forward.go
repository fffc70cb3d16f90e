package kvsteer

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
)

// DefaultForward lets through what clients of an inference API call: paths below
// /v1/ and /v2/ but for those that change which adapters are loaded, and a few of
// the engines' own that neither change nor reveal anything. Engines serve their
// administration (sleep, cache reset, profiling, weight updates) on the same
// port, so everything else stays here.
func DefaultForward(r *http.Request) bool {
	p := r.URL.Path
	if path.Clean(p) != strings.TrimSuffix(p, "/") {
		return false // what an engine makes of dots and double slashes is unknown
	}
	switch strings.TrimSuffix(p, "/") {
	case "/v1/load_lora_adapter", "/v1/unload_lora_adapter":
		return false
	case "/tokenize", "/detokenize", "/version", "/ping", "/health",
		"/rerank", "/score", "/classify", "/pooling":
		return true
	default:
		return strings.HasPrefix(p, "/v1/") || strings.HasPrefix(p, "/v2/")
	}
}

// byLoad forwards a request that no prompt routes to the least loaded worker.
func (t *Transport) byLoad(req *http.Request) (*http.Response, error) {
	r := t.router
	if !t.forward(req) {
		closeBody(req)
		return nil, &Error{
			Code:    CodeNotForwarded,
			Message: "the path " + quote(req.URL.Path) + " is not forwarded to workers",
		}
	}
	if r.closed.Load() {
		closeBody(req)
		return nil, &Error{Code: CodeClosed, Message: "the router was closed"}
	}
	if n := req.ContentLength; n > 0 && n <= r.opts.maxBody {
		// An engine may answer before it has read everything, and a server closes
		// the body it is reading from as soon as it answers: have it whole.
		body, err := t.readBody(req)
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		setBody(req, body)
	}
	m := leastLoaded(r.fleet.Snapshot().Members())
	if m == nil {
		closeBody(req)
		return nil, &Error{Code: CodeNoCandidates, Message: "no healthy worker at the moment", RetryAfter: retrySoon}
	}
	booking := m.Begin(0, fleet.Work{})
	out := req.Clone(req.Context())
	out.URL = join(m.URL(), req.URL)
	out.Host = ""
	out.RequestURI = ""
	strip(out.Header)
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		booking.End()
		if req.Context().Err() != nil {
			return nil, canceled(req.Context())
		}
		m.ReportFailure(err)
		return nil, &Error{Code: CodeUpstream, Message: "the worker could not be reached", Err: err}
	}
	resp.Body = &bookedBody{ReadCloser: resp.Body, booking: booking}
	return resp, nil
}

// bookedBody ends a booking when the response is read or closed.
type bookedBody struct {
	io.ReadCloser

	booking *fleet.Booking
}

func (b *bookedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.booking.End()
	}
	return n, err
}

func (b *bookedBody) Close() error {
	b.booking.End()
	return b.ReadCloser.Close()
}

func leastLoaded(members []*fleet.Member) *fleet.Member {
	var best *fleet.Member
	least := 0
	for _, m := range members {
		if !m.Routable() {
			continue
		}
		n := 0
		for rank := range m.Ranks() {
			n += m.InFlight(rank).Requests
		}
		if best == nil || n < least {
			best, least = m, n
		}
	}
	return best
}

type modelList struct {
	Object string      `json:"object"`
	Data   []modelItem `json:"data"`
}

type modelItem struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	OwnedBy     string  `json:"owned_by"`
	Parent      *string `json:"parent"`
	MaxModelLen int     `json:"max_model_len,omitempty"`
}

// models answers GET /v1/models with the union of what the fleet serves.
func (t *Transport) models(req *http.Request) (*http.Response, error) {
	list := modelList{Object: "list", Data: []modelItem{}}
	for _, m := range t.router.fleet.Snapshot().Models() {
		item := modelItem{ID: m.Name, Object: "model", OwnedBy: "kvsteer", MaxModelLen: m.MaxModelLen}
		if m.Parent != "" {
			item.Parent = &m.Parent
		}
		list.Data = append(list.Data, item)
	}
	body, err := json.Marshal(list)
	if err != nil {
		return nil, &Error{Code: CodeUpstream, Err: err}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":   {"application/json"},
			"Content-Length": {strconv.Itoa(len(body))},
		},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

func mediaType(h http.Header) string {
	mt, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return mt
}

func setBody(out *http.Request, body []byte) {
	out.ContentLength = int64(len(body))
	out.TransferEncoding = nil
	if len(body) == 0 {
		out.Body, out.GetBody = http.NoBody, func() (io.ReadCloser, error) { return http.NoBody, nil }
		return
	}
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	out.Body = io.NopCloser(bytes.NewReader(body))
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // a RoundTripper must close it; nobody wants the error
	}
}

// maxDrain is how much of an unwanted answer is read so that its connection can
// be used again.
const maxDrain = 64 << 10

func discard(resp *http.Response) {
	if resp == nil {
		return
	}
	if n := resp.ContentLength; n >= 0 && n <= maxDrain {
		_, _ = io.CopyN(io.Discard, resp.Body, n) // best effort
	}
	_ = resp.Body.Close()
}

// appendAll reads r to its end behind buf.
func appendAll(buf []byte, r io.Reader) ([]byte, error) {
	const room = 4096
	for {
		if cap(buf)-len(buf) == 0 {
			buf = append(buf, make([]byte, room)...)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF { //nolint:errorlint // io.Reader's contract is the bare value
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}
