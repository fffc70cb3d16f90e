package doctor

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/sse"
	"github.com/kvsteer/kvsteer/internal/usage"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

const (
	// probeBlocks is how many blocks the probe's prompt fills at the least.
	probeBlocks = 4
	// probeOutput is how many tokens are asked for.
	probeOutput = 2
	// usualBlock is what is assumed of an engine that doesn't say, generously.
	usualBlock = 128
	// requestShare of the whole time is how long a request may take at most; slow is
	// how long one of a few hundred tokens should, and late how long after the answer
	// its events may come.
	requestShare = 4
	slow         = 4 * time.Second
	late         = time.Second
)

// sentence is what the probe's prompt is made of, besides a number that makes it new
// to the engine.
const sentence = "The doctor says the same thing twice, and listens to what is remembered of it. "

// trial is one request of the probe.
type trial struct {
	usage     usage.Usage
	reported  bool // usage at all
	first     time.Duration
	predicted int      // cached tokens, by the index; -1 if nothing is known
	ids       []uint32 // of the prompt as the engine has them, nil if it doesn't say
}

// prober sends the probe to one rank of a worker.
type prober struct {
	*patient

	rank  int
	model string
	api   prompt.API
	body  []byte
	enc   prompt.Encoding
	found findings
}

// checkProbe: does a request work from end to end, and is what the engine reports
// as cached what the index predicted?
func checkProbe(ctx context.Context, p *patient) findings {
	model := p.model()
	switch {
	case !p.opts.Probe:
		return skipped("not asked for (-probe): a request would cost the engine work")
	case worst(OK, p.found[:1]) == Fault: // health
		return skipped("the router would send it nothing either, see health")
	case model == "":
		return skipped("no model is known")
	}
	var found findings
	for rank := range p.worker.Ranks() {
		one := &prober{patient: p, rank: rank, model: model, api: prompt.Chat}
		one.run(ctx)
		if p.worker.Ranks() > 1 {
			one.found.about("rank " + strconv.Itoa(rank))
		}
		found = append(found, one.found...)
	}
	return found
}

func (p *prober) add(f findings) { p.found = append(p.found, f...) }

// run sends the same prompt twice.
func (p *prober) run(ctx context.Context) {
	counted := 0.0
	if p.metrics != nil {
		counted = p.metrics.sum(work(p.engine))
	}
	published := p.published()
	p.compose(ctx)
	cold, err := p.try(ctx)
	if errors.Is(err, errUnsupported) { // a model without a chat template
		p.api = prompt.Completions
		p.compose(ctx)
		cold, err = p.try(ctx)
	}
	if errors.Is(err, errUnsupported) {
		p.add(skipped("%s takes neither chats nor completions", p.model))
		return
	}
	if err != nil {
		p.add(fault("the first request fails: %v", err).advise(requestAdvice).after("ranks"))
		return
	}
	if tokens, block := p.fits(); tokens <= block {
		p.add(skipped("a request works; its %d tokens, all that there is room for, fill no block of %d and one token more, so that "+
			"nothing of it could be cached", tokens, block))
		return
	}
	delay, heard := p.listen(ctx, published)
	if heard && p.early(ctx) {
		published = p.published()
		p.compose(ctx)
		if cold, err = p.try(ctx); err != nil {
			p.add(fault("the second request fails: %v", err).advise(requestAdvice).after("ranks"))
			return
		}
		delay, heard = p.listen(ctx, published)
	}
	warm, err := p.try(ctx)
	if err != nil {
		p.add(fault("the second request fails: %v", err).advise(requestAdvice).after("ranks"))
		return
	}
	same := p.judgePrompt(&warm)
	p.judgeUsage(&warm)
	if same { // else its events are of another prompt
		if heard || !p.connected() { // else nothing could be predicted, and judgeEvents says why
			p.judgePrediction(&cold, &warm)
		}
		p.judgeEvents(ctx, delay, heard, published)
	}
	p.judgeMetrics(ctx, counted)
	p.judgeSpeed(&cold)
	p.summarise(&cold, &warm, delay)
}

const requestAdvice = "Send the engine a request by hand and look into its log: this concerns every client."

// compose writes the prompt and finds out its token ids.
func (p *prober) compose(ctx context.Context) {
	_, block := p.fits()
	if block == 0 {
		block = usualBlock
	}
	// A word is a token at the least.
	sentences := 1 + probeBlocks*block/len(strings.Fields(sentence))
	text := "Visit " + nonce() + ". " + strings.Repeat(sentence, sentences)
	if room := p.member.MaxModelLen(p.model); room > 0 && len(text) > 2*room { // a token of English has some four characters
		text = text[:2*room]
	}
	request := map[string]any{
		"model": p.model, "max_tokens": probeOutput, "temperature": 0, "stream": true,
		"stream_options": map[string]any{"include_usage": true},
	}
	if p.api == prompt.Chat {
		request["messages"] = []map[string]string{{"role": "user", "content": text}}
	} else {
		request["prompt"] = text
	}
	p.body, _ = json.Marshal(request) // strings and numbers can't fail
	if p.encoder == nil {
		o := prompt.Options{Client: p.client, Deadline: p.opts.ask()}
		if p.proven[p.model] {
			o.Sources = []prompt.Source{p.files.models[p.model].source}
		}
		p.encoder = prompt.NewEncoder(o)
	}
	p.enc, _ = p.encoder.Encode(ctx, &prompt.Request{ // the body is well-formed
		API: p.api, Model: p.model, Body: p.body, Engine: p.promptEngine(),
	})
	if p.engine == fleet.EngineVLLM { // others refuse what they don't know
		request["return_token_ids"] = true
		p.body, _ = json.Marshal(request)
	}
}

// fits is how long the prompt is and how long the engine's blocks are, in tokens. A block that
// isn't known has none: nothing is said by it.
func (p *prober) fits() (tokens, block int) {
	for _, known := range []int{p.member.BlockSize(), p.blockSize()} {
		if known > 0 {
			block = known
		}
	}
	return p.enc.Count, block
}

// nonce is a word that no earlier prompt had.
func nonce() string {
	const bytes = 6
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte(rand.Uint32()) //nolint:gosec // it need not be secret
	}
	return hex.EncodeToString(b)
}

// blockSize is what the events say, 0 without any.
func (p *patient) blockSize() int {
	if p.streams == nil {
		return 0
	}
	return p.streams.blockSize()
}

// keys are the prompt's blocks that an engine can reuse; nil if they can't be told.
func (p *prober) keys() []kvcache.Key {
	size := p.blockSize()
	if size == 0 || !p.enc.Source.Exact() {
		return nil
	}
	usable := (len(p.enc.Tokens) - 1) / size * size
	return kvcache.Hasher{BlockSize: size}.Keys(nil, p.enc.Tokens[:usable], kvcache.Scope{}, nil)
}

// predict is how many tokens of the prompt the index says are cached, -1 if it can't.
func (p *prober) predict() int {
	switch {
	case p.streams == nil || !p.enc.Source.Exact() || !p.streams.exact(p.rank):
		return -1
	case p.blockSize() == 0:
		return 0 // nothing was published yet
	}
	return kvcache.CachedTokens(p.streams.held(p.keys(), p.rank), p.blockSize(), len(p.enc.Tokens), p.worker.Speculative)
}

// errUnsupported: the engine has no such API for the model.
var errUnsupported = errors.New("not supported for this model")

// try sends the prompt and reads the answer to its end.
func (p *prober) try(ctx context.Context) (trial, error) {
	t := trial{predicted: p.predict()}
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeout/requestShare)
	defer cancel()
	header := http.Header{}
	if p.worker.Ranks() > 1 {
		header.Set("X-Data-Parallel-Rank", strconv.Itoa(p.rank))
	}
	began := time.Now()
	resp, err := p.send(ctx, http.MethodPost, p.api.Path(), p.body, header)
	if err != nil {
		return t, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusBadRequest && p.api == prompt.Chat || resp.StatusCode == http.StatusNotFound ||
		resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotImplemented:
		return t, fmt.Errorf("status %d: %w", resp.StatusCode, errUnsupported)
	case resp.StatusCode/100 != 2:
		return t, fmt.Errorf("status %d", resp.StatusCode)
	}
	reader := usage.Reader{WantIDs: true}
	failed, ended := false, false
	take := func(e sse.Event) {
		ended = ended || e.Done()
		chunk := reader.Read(e.Data)
		failed = failed || chunk.Has(usage.Failed)
		if chunk.Has(usage.Content) && t.first == 0 {
			t.first = time.Since(began)
		}
	}
	if err := readEvents(resp.Body, take); err != nil {
		return t, fmt.Errorf("the answer breaks off: %w", brief(ctx, err))
	}
	t.usage, t.reported = reader.Usage()
	t.ids = reader.PromptIDs()
	switch {
	case failed:
		return t, errors.New("the answer is an error")
	case !ended:
		return t, errors.New("the answer ends too early")
	}
	return t, nil
}

// readEvents gives each event of a stream to take.
func readEvents(r io.Reader, take func(sse.Event)) error {
	var scanner sse.Scanner
	const chunk = 4 << 10
	buf := make([]byte, chunk)
	for {
		n, err := r.Read(buf)
		scanner.Feed(buf[:n], take)
		switch {
		case errors.Is(err, io.EOF):
			scanner.Flush(take)
			return nil
		case err != nil:
			return err
		}
	}
}

// published counts the messages that are known of.
func (p *prober) published() int {
	total := 0
	if p.streams != nil {
		for _, one := range p.streams.all {
			total += one.messages()
		}
	}
	return total
}

// listen waits for what the first request makes the engine publish: its blocks if
// they can be told, else anything.
func (p *prober) listen(ctx context.Context, before int) (delay time.Duration, heard bool) {
	if !p.connected() {
		return 0, false
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.opts.patience())
	defer cancel()
	heard = wait(ctx, func() bool {
		if keys := p.keys(); keys != nil {
			return p.streams.held(keys, p.rank) >= len(keys)
		}
		return !p.enc.Source.Exact() && p.published() > before
	})
	return time.Since(began), heard
}

// connected reports whether the rank's events can come.
func (p *prober) connected() bool {
	if p.streams == nil {
		return false
	}
	for _, one := range p.streams.all {
		if (one.rank < 0 || one.rank == p.rank) && one.follower != nil && one.follower.Problem() == "" {
			return true
		}
	}
	return false
}
