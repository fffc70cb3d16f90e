package kvsteer

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/providers"
)

// byLoad forwards a request that no prompt routes to the least loaded worker, and
// to the next one while nothing can have happened yet.
func (t *Transport) byLoad(req *http.Request) (*http.Response, error) {
	f := &Forward{HTTP: req, Allow: t.forward, Describe: t.describe}
	if t.wantsBody(req) && allowed(t.forward, t.router.keeper(req.URL.Path), req) {
		body, err := t.readBody(req)
		if err != nil {
			return nil, t.unread("", err)
		}
		f.Body = body
		req = req.Clone(req.Context())
		setBody(req, body)
	}
	p, err := t.router.Place(f)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	handed := false
	defer func() {
		if !handed {
			p.End()
		}
	}()
	for {
		if len(f.Body) > 0 {
			setBody(req, p.Body()) // of a copy; it differs by the target
		}
		resp, err := t.send(req, p)
		if err == nil {
			handed = true
			return resp, nil
		}
		if left := departed(req); left != nil {
			return nil, &Error{Code: CodeCanceled, Err: left}
		}
		if unsupported(err) && counts(req) {
			p.Answered(http.StatusOK)
			return t.count(req, p.model, f.Body) // p ends as we return
		}
		if refused := outsideOnly(err); refused != nil {
			return nil, refused
		}
		if !repeatable(req, err) {
			p.blame(err)
			return nil, notSent(err, unreachable(err))
		}
		if again := p.Next(err); again != nil {
			return nil, notSent(err, again)
		}
		req = req.Clone(req.Context())
		if len(f.Body) == 0 && req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, &Error{Code: CodeUpstream, Message: "the body can't be sent again", Err: err}
			}
			req.Body = body
		}
	}
}

// notSent is the error after cause: other, unless cause is that a provider can't be asked
// that, which is the client's to change.
func notSent(cause, other error) error {
	if unsupported(cause) {
		return untranslated(cause)
	}
	return other
}

// wantsBody reports whether the body of a request that is forwarded is read first: JSON
// always, because the model that it names narrows the choice, and other bodies of a
// length that may be. An engine may answer before it has read everything, and a server
// closes the body it is reading from as soon as it answers: better have it whole.
func (t *Transport) wantsBody(req *http.Request) bool {
	n := req.ContentLength
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		return false
	case n > 0 && n <= t.router.opts.maxBody:
		return true
	default:
		return maybeJSON(req.Header) && req.Header.Get("Upgrade") == ""
	}
}

// repeatable reports whether another worker may be asked after err: the body is
// still there, and either no connection came about or the method does no harm.
func repeatable(req *http.Request, err error) bool {
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return false
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	default:
		var op *net.OpError
		return errors.As(err, &op) && op.Op == "dial" || untouched(err)
	}
}

// send sends the request to where it was placed. The booking ends with the answer, or
// the error.
func (t *Transport) send(req *http.Request, p *Placement) (*http.Response, error) {
	handed := false
	defer func() {
		if !handed {
			p.release()
		}
	}()
	target := p.Target()
	out := readdress(req, target.base())
	for _, name := range target.Remove {
		out.Header.Del(name)
	}
	resp, err := target.through(t.base).RoundTrip(out)
	if err != nil {
		return nil, unquoted(err)
	}
	p.Answered(resp.StatusCode)
	p.MarkAnswer(resp.Header)
	relocate(resp, target.URL)
	strip(resp.Trailer)
	if resp.Body == nil || resp.Body == http.NoBody {
		p.End()
		return resp, nil // nobody need come back to close it
	}
	handed = true
	body := placedBody{ReadCloser: resp.Body, placement: p, resp: resp}
	resp.Body = &body
	if w, ok := body.ReadCloser.(io.Writer); ok { // 101 Switching Protocols: it is the connection
		resp.Body = &placedConn{placedBody: &body, Writer: w}
	}
	return resp, nil
}

// placedBody ends a Placement when the response is read or closed.
type placedBody struct {
	io.ReadCloser

	placement *Placement
	resp      *http.Response // whose trailers come with its end
}

func (b *placedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = unquoted(err) // io.EOF stays itself
		strip(b.resp.Trailer)
		b.placement.End()
	}
	return n, err
}

func (b *placedBody) Close() error {
	b.placement.End()
	return b.ReadCloser.Close()
}

// placedConn is a placedBody that can be written to.
type placedConn struct {
	*placedBody
	io.Writer
}

// bookFor books a request that no prompt routes: at whoever has what it is about, or else
// on the least loaded worker.
func (r *Router) bookFor(p *Placement) *Error {
	at, refused := r.responseHolder(p)
	switch {
	case refused != nil:
		return refused
	case at.offer != nil:
		return r.bookOnly(p, at.offer)
	case at.member != nil && !slices.Contains(p.tried, at) && p.mayUse(at.member):
		if refused := r.bookMember(p, at); refused != nil || p.booking != nil {
			return refused
		}
	default:
	}
	if p.keeper != nil {
		return r.bookOnly(p, p.keeper)
	}
	return r.bookLeastLoaded(p)
}

// bookMember books the request at the worker that has what it is about. What brings
// nothing may be asked of any.
func (r *Router) bookMember(p *Placement, at place) *Error {
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	if p.brings {
		left, refused := r.left(p, r.fleet.Snapshot(), []*fleet.Member{at.member}, nil)
		if refused != nil || len(left) == 0 {
			return refused
		}
	}
	p.take(at)
	return nil
}

// mayUse reports whether the gateway lets the request go to m at all.
func (p *Placement) mayUse(m *fleet.Member) bool {
	return (len(p.among) == 0 || named(m, p.among)) && !p.asked.elsewhere(m)
}

func (p *Placement) usable(members []*fleet.Member) []*fleet.Member {
	return slices.DeleteFunc(slices.Clone(members), func(m *fleet.Member) bool { return !p.mayUse(m) })
}

// bookLeastLoaded books the request on the least loaded worker that takes
// requests and was not tried. A model that the body names narrows the choice to those
// that serve it, or to providers if no worker does, and so does the policy if it is to be
// asked. Looking and booking are one step, as for a prompt.
func (r *Router) bookLeastLoaded(p *Placement) *Error {
	snap := r.fleet.Snapshot()
	members := p.usable(snap.Serving(p.model))
	var offers []*providers.Offer
	if p.model != "" && len(snap.Serving(p.model)) == 0 {
		if offers = p.asked.offers(p.model); len(offers) > 0 {
			if refused := r.sold(p); refused != nil {
				return refused
			}
		}
	}
	if len(members) == 0 && p.model != "" && len(offers) == 0 {
		if refused := p.asked.unservable(snap); refused.Code == CodeUnknownModel {
			return refused
		}
	}
	if len(snap.Serving(p.model)) == 0 && len(offers) == 0 { // some of which it is not known may serve it
		members = p.usable(snap.Members())
	}
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	if p.brings {
		left, refused := r.left(p, snap, members, offers)
		if refused != nil {
			return refused
		}
		if len(left) > 0 && left[0].offer != nil {
			p.take(left[0])
			return nil
		}
		members = membersOf(left)
	}
	if m := leastLoaded(members, p.tried); m != nil {
		p.take(place{member: m})
	}
	return nil
}

func membersOf(places []place) (members []*fleet.Member) {
	for _, at := range places {
		if at.member != nil {
			members = append(members, at.member)
		}
	}
	return members
}

func leastLoaded(members []*fleet.Member, tried []place) *fleet.Member {
	var best *fleet.Member
	least := 0
	for _, m := range members {
		if !m.Routable() || slices.Contains(tried, place{member: m}) {
			continue
		}
		if best != nil && computesOnly(m) != computesOnly(best) {
			if computesOnly(best) {
				best, least = m, load(m)
			}
			continue // who only computes prompts is asked if there is nobody else
		}
		if n := load(m); best == nil || n < least {
			best, least = m, n
		}
	}
	return best
}

// load is the requests in flight on all ranks, those of other routers included.
func load(m *fleet.Member) (n int) {
	for rank := range m.Ranks() {
		n += m.InFlight(rank).Requests + m.Peers(rank).Requests
	}
	return n
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
// be used again, drainTime how long that may take.
const (
	maxDrain  = 64 << 10
	drainTime = 100 * time.Millisecond
)

func discard(resp *http.Response) {
	if resp == nil {
		return
	}
	if n := resp.ContentLength; n >= 0 && n <= maxDrain {
		if b, ok := resp.Body.(*attemptBody); ok {
			defer time.AfterFunc(drainTime, func() { b.cancel(nil) }).Stop()
		}
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
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}

// readdress returns a copy of the request for the worker at base, without what
// only the router may say.
func readdress(req *http.Request, base *url.URL) *http.Request {
	out := req.Clone(req.Context())
	out.URL = join(base, req.URL)
	out.Host = ""
	out.RequestURI = ""
	unlist(out.Header)
	strip(out.Header)
	strip(out.Trailer)
	return out
}

// relocate makes a redirect to the worker itself relative, so that it leads back
// to the gateway and does not tell the worker's address.
func relocate(resp *http.Response, base *url.URL) {
	loc := resp.Header.Get("Location")
	if loc == "" {
		return
	}
	u, err := url.Parse(loc)
	if err != nil || u.Host == "" || u.Host != base.Host {
		return
	}
	u.Scheme, u.Host, u.User = "", "", nil
	if prefix := strings.TrimSuffix(base.EscapedPath(), "/"); prefix != "" && strings.HasPrefix(u.EscapedPath(), prefix+"/") {
		u.Path = strings.TrimPrefix(u.Path, strings.TrimSuffix(base.Path, "/"))
		u.RawPath = ""
	}
	if strings.HasPrefix(u.Path, "//") {
		return // would name another host
	}
	resp.Header.Set("Location", u.String())
}

// join puts the request's path and query behind the worker's base address.
func join(base, req *url.URL) *url.URL {
	u := *base
	prefix := strings.TrimSuffix(base.Path, "/")
	u.Path = prefix + req.Path
	u.RawPath = ""
	if req.RawPath != "" || base.RawPath != "" {
		u.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + req.EscapedPath()
	}
	u.RawQuery = req.RawQuery
	return &u
}
