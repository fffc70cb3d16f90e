package kvsteer

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/providers"
)

// hints are what a request says about how it wants to be treated.
type hints struct {
	// previous is the response that the request goes on from, which one engine has.
	previous string
	// named: the body names other things that a backend keeps. It is looked for where
	// tenants share accounts at providers.
	named     bool
	tenant    string
	qos, pool string
	among     []string
	priority  int
	session   string
	// local: only workers may serve the request.
	local     bool
	ttft, itl time.Duration
}

// take reads what the Request and its headers say.
func (h *hints) take(req *Request) *Error {
	h.tenant, h.qos, h.pool, h.among = req.Tenant, req.QoS, req.Pool, slices.Clone(req.Among)
	h.priority, h.session = req.Priority, req.Session
	h.ttft, h.itl, h.local = req.TargetTTFT, req.TargetITL, req.WorkersOnly
	if h.ttft < 0 || h.itl < 0 {
		return badRequest(nil, "a target is negative")
	}
	if req.Header == nil {
		return nil
	}
	if h.session == "" {
		h.session = req.Header.Get(HeaderSession)
	}
	if err := target(&h.ttft, req.Header, HeaderTargetTTFT); err != nil {
		return err
	}
	return target(&h.itl, req.Header, HeaderTargetITL)
}

// target reads a header in milliseconds into an unset target.
func target(to *time.Duration, h http.Header, name string) *Error {
	text := strings.TrimSpace(h.Get(name))
	if *to != 0 || text == "" {
		return nil
	}
	const most = 1e9 // ms, more than a week
	ms, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ms > 0) || ms > most {
		return badRequest(nil, "the header %s must be a positive number of milliseconds", name)
	}
	*to = time.Duration(math.Ceil(ms * float64(time.Millisecond)))
	return nil
}

// read takes the session from the body if nobody named one before.
func (h *hints) read(o jsonscan.Object) {
	for _, key := range []string{"session_id", "prompt_cache_key"} {
		if h.session == "" {
			h.session, _ = o.Value(key).Str()
		}
	}
}

// keyOf stands for a name among others of its kind; never 0.
func keyOf(parts ...string) uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, part := range parts {
		_, _ = d.WriteString(strconv.Itoa(len(part))) // it never fails
		_, _ = d.WriteString(":")
		_, _ = d.WriteString(part)
	}
	return max(d.Sum64(), 1)
}

// account is the tenant's name in the line, which keeps it for longer than the
// request lives: a long one is replaced by what stands for it.
func (h *hints) account() string {
	const most, hex = 64, 16
	if len(h.tenant) <= most {
		return h.tenant
	}
	return strconv.FormatUint(keyOf(h.tenant), hex)
}

// sessionKey stands for the request's session, 0 if it has none. Sessions of
// different tenants and models are different ones, whatever they are called.
func (p *parsed) sessionKey() uint64 {
	if p.hints.session == "" {
		return 0
	}
	return keyOf(p.hints.tenant, p.model, p.hints.session)
}

// sessions remembers where sessions were last sent. What was not heard of while
// maxSessions others were is forgotten. It is guarded by Router.pickMu.
type sessions struct {
	recent, older map[uint64]place
}

// place is a rank of a worker's instance, or an offer of a provider's.
type place struct {
	member *fleet.Member
	rank   int
	offer  *providers.Offer
}

// maxSessions bounds the sessions remembered, at some 40 bytes each in two maps.
const maxSessions = 1 << 16

func (s *sessions) home(key uint64) place {
	if p, ok := s.recent[key]; ok || key == 0 {
		return p
	}
	return s.older[key]
}

func (s *sessions) moved(key uint64, to place) {
	if key == 0 {
		return
	}
	if s.recent == nil || len(s.recent) >= maxSessions/2 {
		s.recent, s.older = make(map[uint64]place), s.recent
	}
	s.recent[key] = to
}
