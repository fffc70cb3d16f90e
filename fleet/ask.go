package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const pathModels = "/v1/models"

// get asks the member for path, within ProbeTimeout, and reads the answer into
// body, or discards it if that is nil. The error is about the exchange, not about
// the status.
func (p *prober) get(ctx context.Context, path string, body *bytes.Buffer) (status int, err error) {
	timeout := p.fleet.opts.ProbeTimeout
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.m.url.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", "application/json, text/plain;version=0.0.4, */*;q=0.1")
	if p.fleet.opts.Prepare != nil {
		p.fleet.opts.Prepare(req, p.m.Worker())
	}
	resp, err := p.fleet.client.Do(req)
	if err != nil {
		return 0, plainError(ctx, err, path, timeout)
	}
	defer resp.Body.Close()
	limited := io.LimitReader(resp.Body, p.fleet.opts.MaxResponseBytes+1)
	var n int64
	if body == nil {
		n, err = io.Copy(io.Discard, limited)
	} else {
		body.Reset()
		n, err = body.ReadFrom(limited)
	}
	switch {
	case err != nil:
		return 0, plainError(ctx, err, path, timeout)
	case n > p.fleet.opts.MaxResponseBytes:
		return 0, fmt.Errorf("the answer of %s is longer than %d bytes; raise Options.MaxResponseBytes if that is right",
			path, p.fleet.opts.MaxResponseBytes)
	}
	return resp.StatusCode, nil
}

// plainError leaves out the worker's address, which is known, and says what a
// timeout was.
func plainError(ctx context.Context, err error, path string, timeout time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer of %s within %v: %w", path, timeout, context.DeadlineExceeded)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// checkModels asks what is served. It reports false if the instance was replaced
// or the Fleet closes.
func (p *prober) checkModels(ctx context.Context) bool {
	buf := p.fleet.buffer()
	defer p.fleet.recycle(buf)
	status, err := p.get(ctx, pathModels, buf)
	problem := ""
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		problem = "what it serves can't be read: " + err.Error()
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		problem = fmt.Sprintf("%s answers with status %d: declare models, or add credentials with Options.Prepare",
			pathModels, status)
	case status/100 == 2:
		return p.takeModels(buf.Bytes())
	case len(p.m.Worker().Models) == 0:
		problem = fmt.Sprintf("%s answers with status %d: declare models", pathModels, status)
	}
	p.settleModels(problem)
	return true
}

func (p *prober) takeModels(body []byte) bool {
	models, engine, err := parseModels(body)
	if err != nil {
		p.settleModels(err.Error())
		return true
	}
	if p.reportedKnown && otherBases(p.reported, models) && p.replaced("it serves other models", unsure) {
		return false
	}
	p.reported, p.reportedKnown = models, true
	p.settleModels("")
	p.detected(engine)
	return true
}

// settleModels publishes what is served. problem is what went wrong in asking.
func (p *prober) settleModels(problem string) {
	names := p.m.Worker().Models
	s := declared(names)
	if p.reportedKnown {
		var mismatch string
		if s, mismatch = reconcile(names, p.reported); problem == "" {
			problem = mismatch
		}
	}
	p.problem(aboutModels, problem)
	if !s.equal(p.m.served.Load()) {
		p.m.served.Store(s)
		p.fleet.markDirty()
	}
}

// detected takes over an engine that was found out, unless it is declared.
func (p *prober) detected(e Engine) {
	info := *p.m.info.Load()
	was := info.engine
	switch declared := p.m.Worker().Engine; {
	case declared != EngineAuto:
		info.engine = declared
	case e != EngineAuto:
		info.engine = e
	}
	if info.engine != was {
		p.m.info.Store(&info)
		p.fleet.markDirty()
	}
}

// askInfo asks once for what SGLang says of itself: its page size, and whether it
// is SGLang if that isn't known yet.
func (p *prober) askInfo(ctx context.Context) {
	engine := p.m.Engine()
	if p.infoKnown || engine != EngineSGLang && (engine != EngineAuto || p.infoTried) {
		return
	}
	buf := p.fleet.buffer()
	defer p.fleet.recycle(buf)
	for _, path := range []string{"/server_info", "/get_server_info"} {
		status, err := p.get(ctx, path, buf)
		if err != nil {
			return // again at the next probe
		}
		if status/100 != 2 {
			continue
		}
		if found, ok := parseServerInfo(buf.Bytes()); ok {
			p.infoKnown = true
			info := *p.m.info.Load()
			info.blockSize = found.PageSize
			p.m.info.Store(&info)
			p.detected(EngineSGLang)
			p.fleet.markDirty()
			return
		}
	}
	p.infoTried = true
	p.infoKnown = engine == EngineSGLang // it won't say
}

// scrape reads the metrics and says when to do so again. ok is false when the
// goroutine has to end.
func (p *prober) scrape(ctx context.Context) (pause time.Duration, ok bool) {
	buf := p.fleet.buffer()
	defer p.fleet.recycle(buf)
	for _, path := range metricsPaths(p.m.Engine()) {
		status, err := p.get(ctx, path, buf)
		switch {
		case ctx.Err() != nil:
			return 0, false
		case err != nil:
			p.problem(aboutMetrics, "its metrics can't be read: "+err.Error())
			return max(p.fleet.opts.ScrapeInterval, retryInterval), true
		case status/100 != 2:
			continue
		}
		// Taken now, not after parsing: the report is of about this moment.
		own := p.m.ownWork()
		if r, known := parseMetrics(buf.Bytes()); known {
			p.problem(aboutMetrics, "")
			p.detected(r.engine)
			l := r.load(p.m.Ranks(), p.fleet.opts.Now())
			l.own = own
			return p.fleet.opts.ScrapeInterval, p.takeLoad(l)
		}
	}
	if p.m.Engine() == EngineAuto {
		p.detected(EngineOther)
	}
	text := ""
	if p.m.Engine() != EngineOther {
		text = "it has no metrics, so that only our own requests are known as its load: start it with metrics on"
	}
	p.problem(aboutMetrics, text)
	return max(p.fleet.opts.ScrapeInterval, absentInterval), true
}

// takeLoad publishes a report, unless it shows that the process is another. It
// reports false if the instance was replaced.
func (p *prober) takeLoad(l *Load) bool {
	if why, how := p.restartSeen(l); why != "" && p.replaced(why, how) {
		return false
	}
	p.last = l
	p.m.load.Store(l)
	w := p.m.Worker()
	text := ""
	if w.BlockSize > 0 && l.Total.BlockSize > 0 && w.BlockSize != l.Total.BlockSize {
		text = fmt.Sprintf("blockSize is %d but the engine's is %d: correct it or leave it out", w.BlockSize, l.Total.BlockSize)
	}
	p.problem(aboutBlocks, text)
	text = ""
	if len(l.Ranks) > p.m.Ranks() {
		text = "the engine has " + strconv.Itoa(len(l.Ranks)) + " data-parallel ranks: set dataParallel, to choose among them"
	}
	p.problem(aboutRanks, text)
	if l.Sleeping != p.asleep {
		p.asleep = l.Sleeping
		if p.asleep {
			p.m.losses.Add(1)
			p.failed(errAsleep)
		} else {
			p.m.wake()
		}
	}
	return true
}

// restartSeen says why l must be of another process than the reports before, ""
// if nothing speaks for it.
func (p *prober) restartSeen(l *Load) (why string, how evidence) {
	if !l.Started.IsZero() && !p.started.IsZero() {
		switch later := l.Started.Sub(p.started); {
		case later > startSlack:
			return "its process was started anew", sure
		case later < -startSlack:
			// Time doesn't run backwards: two processes answer in turn.
			p.distrust = true
			p.problem(aboutRestart, "several servers answer at this url; list each as a worker of its own")
		default:
			p.started = l.Started // follow a slow drift
		}
		return "", sure
	}
	if p.started.IsZero() {
		p.started = l.Started
	}
	if p.last == nil || len(p.last.Ranks) != len(l.Ranks) {
		return "", unsure
	}
	a, b := &p.last.Total, &l.Total
	if b.requests < a.requests || b.PromptTokens < a.PromptTokens || b.GenerationTokens < a.GenerationTokens ||
		b.PrefixQueries < a.PrefixQueries {
		return "its counters fell", unsure
	}
	return "", unsure
}

func (m *Member) ownWork() []ownWork {
	own := make([]ownWork, len(m.ranks))
	for i := range own {
		f := m.ranks[i].read()
		peers := m.Peers(i)
		own[i] = ownWork{
			prefill: f.PrefillRequests + peers.PrefillRequests, decode: f.DecodeRequests + peers.DecodeRequests,
			picks: f.Picks,
		}
	}
	return own
}

// buffer lends a buffer for an answer: a fleet of thousands must not keep one for
// each member.
func (f *Fleet) buffer() *bytes.Buffer {
	if b, ok := f.buffers.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

func (f *Fleet) recycle(b *bytes.Buffer) { f.buffers.Put(b) }
