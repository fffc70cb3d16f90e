package fleettest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/kvsteer/kvsteer/internal/sim"
)

// headerRank pins a request to a data-parallel rank.
const headerRank = "X-Data-Parallel-Rank"

// headerSession names the session that events mention.
const headerSession = "X-Session-Id"

// Reasons to finish.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishAbort  = "abort"
)

// generation is one API request being answered.
type generation struct {
	life    *life
	cfg     *Config
	body    *body
	id      string
	created int64
	jobs    []*job // one a choice
	choices int    // choices a prompt
	notify  chan struct{}
	finish  string
	noUsage bool
	dieAt   int // tokens after which the connection is cut, -1 for never
}

// usage is the token counts of a whole request.
type usage struct {
	prompt, output int
	// cached were reused; created filled new blocks that can be reused.
	cached, created int
}

// answer generates the answer to one request.
func (l *life) answer(w http.ResponseWriter, r *http.Request, f format, raw []byte, rec *Request) error {
	g, err := l.newGeneration(r, raw, f, rec)
	if err != nil {
		return err
	}
	defer func() {
		for _, j := range g.jobs {
			j.rank.cancel(j)
		}
	}()
	for _, j := range g.jobs {
		if err := j.rank.submit(j); err != nil {
			if errors.Is(err, sim.ErrTooLong) {
				return badRequest("the prompt and max_tokens are longer than the engine's KV cache")
			}
			return badRequest("the prompt is empty")
		}
	}
	l.engine.rec.update(func() {
		rec.Rank = g.jobs[0].rank.id
		rec.PromptTokens = g.jobs[0].req.Prompt
	})
	finish := finishAbort
	defer func() {
		l.mu.Lock()
		l.success[finish]++
		l.mu.Unlock()
	}()
	complete := g.collect
	if g.body.Stream && f.streams() {
		complete = g.stream
	}
	if !complete(r.Context(), w, f, rec) {
		// The client has gone, or the engine dies: then the answer breaks off, and must not
		// look like one that has ended.
		panic(http.ErrAbortHandler)
	}
	finish = g.finish
	return nil
}

// newGeneration reads the request and makes its jobs.
func (l *life) newGeneration(r *http.Request, raw []byte, f format, rec *Request) (*generation, error) {
	cfg := &l.engine.cfg
	b, err := parseBody(raw)
	if err != nil {
		return nil, err
	}
	l.engine.rec.update(func() { rec.Model = b.Model })
	model := either(b.Model, cfg.Model)
	adapter := cfg.adapter(model)
	if adapter < 0 {
		return nil, &apiError{status: http.StatusNotFound, kind: "NotFoundError", param: "model", text: cfg.notServed(model)}
	}
	b.Model = model
	if l.sleeping() {
		return nil, &apiError{status: http.StatusServiceUnavailable, kind: "ServiceUnavailable", text: "the engine is asleep"}
	}
	asked, err := l.askedRank(r, b)
	if err != nil {
		return nil, err
	}
	limit, err := b.limit()
	if err != nil {
		return nil, err
	}
	prompts, err := b.prompts(r.URL.Path)
	if err != nil {
		return nil, err
	}
	faults := l.engine.faults.view()
	for _, p := range prompts {
		p.otherwise(&faults)
	}
	g := &generation{
		life: l, cfg: cfg, body: b, id: f.prefix() + l.requestID(r), created: time.Now().Unix(), choices: 1,
		notify: make(chan struct{}, 1), noUsage: faults.noUsage, dieAt: l.engine.faults.nextDeath(),
	}
	const mostChoices = 128
	if b.N != nil {
		if *b.N < 1 || *b.N > mostChoices {
			return nil, badRequest("n must be between 1 and " + strconv.Itoa(mostChoices))
		}
		g.choices = *b.N
	}
	if len(prompts) == 0 || len(prompts)*g.choices > mostChoices {
		return nil, badRequest("there must be between 1 and " + strconv.Itoa(mostChoices) + " prompts times choices")
	}
	id := identity{adapterID: adapter, salt: b.CacheSalt, session: clip(r.Header.Get(headerSession))}
	if adapter > 0 {
		id.adapter = model
	}
	for _, p := range prompts {
		if len(p.tokens) == 0 {
			return nil, badRequest("the prompt is empty")
		}
		if len(p.tokens)+max(limit, 1) > cfg.MaxModelLen {
			return nil, &apiError{
				status: http.StatusBadRequest, kind: "BadRequestError", param: "input_tokens",
				text: "This model's maximum context length is " + strconv.Itoa(cfg.MaxModelLen) +
					" tokens; the prompt has " + strconv.Itoa(len(p.tokens)),
			}
		}
		id.images = p.images
		for choice := range g.choices {
			g.jobs = append(g.jobs, g.newJob(r, raw, f, l.pick(asked), id, p.tokens, limit, choice))
		}
	}
	return g, nil
}

// askedRank returns the rank that a request is pinned to, -1 if it isn't.
func (l *life) askedRank(r *http.Request, b *body) (int, error) {
	asked := -1
	if h := r.Header.Get(headerRank); h != "" {
		n, err := strconv.Atoi(h)
		if err != nil || n < 0 {
			return 0, badRequest(headerRank + " is not a rank")
		}
		asked = n
	}
	if b.RoutedRank != nil {
		asked = *b.RoutedRank
	}
	if asked < -1 || asked >= len(l.ranks) {
		return 0, badRequest("data parallel rank is out of range: the engine has " + strconv.Itoa(len(l.ranks)))
	}
	return asked, nil
}

// newJob makes up the answer to a prompt, as the engine knows it in advance, and
// the block hashes of both. The same prompt gets the same answer.
func (g *generation) newJob(r *http.Request, raw []byte, f format, on *rank, id identity, prompt []uint32, limit, choice int) *job {
	j := &job{identity: id, rank: on, notify: g.notify}
	n := g.cfg.OutputTokens
	switch {
	case !f.streams():
		n = 1 // an embedding: one pass over the prompt
		j.pieces = []string{""}
	case g.cfg.Reply != nil:
		j.pieces = append(pieces(g.cfg.Reply(Call{Path: r.URL.Path, Model: g.body.Model, Body: raw})), "")
		n = len(j.pieces)
	}
	g.finish = finishStop
	switch {
	case limit > 0 && (g.body.IgnoreEOS || limit < n):
		n, g.finish = limit, finishLength
	default:
		// An answer that fits ends with the token that ends a message.
		n = min(n, g.cfg.MaxModelLen-len(prompt))
	}
	n = max(n, 1)
	if j.pieces == nil || len(j.pieces) < n {
		j.pieces = words(tokensSeed(prompt)+uint64(choice), n)
	}
	j.pieces = j.pieces[:n]
	tokens := make([]uint32, 0, len(prompt)+n)
	tokens = append(tokens, prompt...)
	for _, piece := range j.pieces {
		tokens = append(tokens, tokenID(piece))
	}
	if g.finish == finishStop {
		j.pieces[n-1] = ""
		tokens[len(tokens)-1] = tokenEnd
	}
	j.req.Prompt, j.req.Output, j.req.Tokens = len(prompt), n, tokens
	if !g.cfg.NoPrefixCache {
		j.req.Hashes = on.hashes(&id, tokens)
	}
	if t := g.body.Transfer; t != nil && t.RemotePrefill && t.EngineID != nil {
		j.req.Remote = len(t.BlockIDs) * on.sim.Config().BlockSize
	}
	return j
}

// transferParams is what the prefill leg of a disaggregated request hands to the
// decode leg, nil for other requests.
func (g *generation) transferParams() any {
	if g.body.Transfer == nil || !g.body.Transfer.RemoteDecode {
		return nil
	}
	j := g.jobs[0]
	size := j.rank.sim.Config().BlockSize
	blocks := make([]int, (j.req.Prompt+size-1)/size)
	for i := range blocks {
		blocks[i] = i + 1
	}
	return object{
		"do_remote_prefill": true, "do_remote_decode": false, "remote_engine_id": g.life.id(),
		"remote_block_ids": blocks, "remote_host": "127.0.0.1", "remote_port": sideChannel + j.rank.id, "tp_size": 1,
	}
}

// sideChannel is the port that the engines say they exchange KV on. Nobody
// listens there.
const sideChannel = 5600

// tokensSeed determines an answer by the end of its prompt.
func tokensSeed(prompt []uint32) uint64 {
	const tail = 64
	seed := uint64(len(prompt))
	for _, token := range prompt[max(0, len(prompt)-tail):] {
		seed = seed*6364136223846793005 + uint64(token)
	}
	return seed
}

// usage adds up the token counts. Every token has been generated.
func (g *generation) usage() usage {
	var u usage
	for i, j := range g.jobs {
		u.output += int(j.ready.Load())
		if i%g.choices == 0 {
			u.prompt += j.req.Prompt
			cached := max(0, j.req.CachedTokens())
			u.cached += cached
			size := j.rank.sim.Config().BlockSize
			u.created += j.req.Prompt/size*size - cached
		}
	}
	return u
}

// collect waits for all tokens and sends the whole answer.
func (g *generation) collect(ctx context.Context, w http.ResponseWriter, f format, rec *Request) bool {
	sent := make([]int, len(g.jobs))
	first := true
	for done := 0; done < len(g.jobs); {
		if g.dieAt == 0 || !g.await(ctx, sent) {
			panic(http.ErrAbortHandler)
		}
		if first {
			g.scheduled(rec)
			first = false
		}
		done = 0
		total := 0
		for choice, j := range g.jobs {
			sent[choice] = int(j.ready.Load())
			total += sent[choice]
			if sent[choice] == len(j.pieces) {
				done++
			}
		}
		if g.dieAt >= 0 && total >= g.dieAt {
			panic(http.ErrAbortHandler)
		}
		for _, point := range []HangPoint{HangBeforeFirstToken, HangMidStream} {
			if g.life.engine.faults.waitHang(ctx, point) != nil {
				panic(http.ErrAbortHandler)
			}
		}
	}
	writeJSON(w, http.StatusOK, f.whole(g))
	return true
}

// await blocks until some job has more tokens than were sent. It reports false
// when the client or the engine has gone.
func (g *generation) await(ctx context.Context, sent []int) bool {
	for {
		for choice, j := range g.jobs {
			if int(j.ready.Load()) > sent[choice] {
				return true
			}
		}
		select {
		case <-g.notify:
		case <-ctx.Done():
			return false
		}
	}
}

// scheduled records, at a choice's first token, the cache hit of the first prompt
// and the time that has passed.
func (g *generation) scheduled(rec *Request) {
	g.life.engine.rec.update(func() { rec.CachedTokens = g.jobs[0].req.CachedTokens() })
	g.life.mu.Lock()
	defer g.life.mu.Unlock()
	g.life.firstToken.observe(time.Since(rec.At).Seconds())
}
