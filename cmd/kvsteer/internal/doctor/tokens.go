package doctor

import (
	"context"
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// sample is a request whose prompt an engine is asked for.
type sample struct {
	api  prompt.API
	name string
	body string
}

func samples() []sample {
	return []sample{
		{prompt.Chat, "chat", `{"messages":[{"role":"user","content":"Good morning, doctor."}]}`},
		{prompt.Completions, "completions", `{"prompt":"Good morning, doctor."}`},
		{prompt.Messages, "messages", `{"max_tokens":1,"messages":[{"role":"user","content":"Good morning, doctor."}]}`},
		{prompt.Responses, "responses", `{"input":"Good morning, doctor."}`},
	}
}

// promptEngine is the worker as one that can be asked for prompts.
func (p *patient) promptEngine() prompt.Engine {
	h := http.Header{}
	authorise(h, p.opts.Key)
	return prompt.Engine{ID: p.worker.Name, BaseURL: p.worker.URL, Header: h}
}

// endpoint is one of an engine's ways to token ids and what it serves.
type endpoint struct {
	name   string
	serves []string // by name of the API
	reason string   // why one is not served that could be
	absent bool
}

// checkTokens: which requests can the engine give the token ids of?
func checkTokens(ctx context.Context, p *patient) findings {
	model := p.model()
	if model == "" {
		return skipped("no model is known")
	}
	render := p.tryEndpoint(ctx, "/render", model, prompt.Options{NoTokenize: true})
	tokenize := p.tryEndpoint(ctx, "/tokenize", model, prompt.Options{NoRender: true})
	facts := Facts{"render": render.serves, "tokenize": tokenize.serves}
	for _, e := range []endpoint{render, tokenize} {
		if e.reason != "" {
			return fault("%s does not serve as it should: %s", e.name, e.reason).
				advise("Look into the engine's log. Prompts that are not known by their ids are routed by their bytes, " +
					"to where the like went before.").with(facts)
		}
	}
	all := len(samples())
	text := describe(render, tokenize)
	switch {
	case len(render.serves) == all:
		return ok("%s", text).with(facts)
	case p.proven[model]:
		return ok("computed from local files, which are proven; besides, %s", text).with(facts)
	case len(render.serves)+len(tokenize.serves) == 0 && (p.engine == fleet.EngineAuto || p.engine == fleet.EngineOther):
		return ok("neither /render nor /tokenize, as usual of this kind of engine: prompts are known by their bytes").with(facts)
	case len(render.serves)+len(tokenize.serves) == 0:
		return fault("neither /render nor /tokenize: prompts are known by their bytes only, so that KV events can't be used").
			advise(tokensAdvice(p.engine)).with(facts)
	case p.engine == fleet.EngineSGLang:
		return ok("%s; SGLang has nothing for other requests, which are routed by their bytes", text).with(facts)
	}
	return warning("%s; other requests are routed by their bytes", text).advise(tokensAdvice(p.engine)).with(facts)
}

// tryEndpoint asks an endpoint for the prompts of all samples, as the router would.
func (p *patient) tryEndpoint(ctx context.Context, name, model string, o prompt.Options) endpoint {
	o.Client, o.Deadline, o.CacheBytes = p.client, p.opts.ask(), -1
	encoder := prompt.NewEncoder(o)
	defer encoder.Close() //nolint:errcheck // always nil
	e := endpoint{name: name, serves: []string{}, absent: true}
	for _, s := range samples() {
		enc, err := encoder.Encode(ctx, &prompt.Request{API: s.api, Model: model, Body: []byte(s.body), Engine: p.promptEngine()})
		if err != nil {
			continue // the samples are well-formed
		}
		if enc.Source.Exact() {
			e.serves, e.absent = append(e.serves, s.name), false
			continue
		}
		for _, d := range enc.Degraded {
			switch {
			case d.Source != prompt.SourceRender && d.Source != prompt.SourceTokenize:
			case d.Reason == prompt.ReasonAbsent || strings.HasPrefix(d.Reason, "endpoint has no form"):
			case d.Reason == "engine refused the request":
				e.absent = false // a base model has no chat template, an engine may not speak an API
			default:
				e.reason = d.Reason
				return e
			}
		}
	}
	return e
}

func describe(all ...endpoint) string {
	var parts []string
	for _, e := range all {
		switch {
		case len(e.serves) > 0:
			parts = append(parts, e.name+" serves "+strings.Join(e.serves, ", "))
		case e.absent:
			parts = append(parts, "no "+e.name)
		default:
			parts = append(parts, e.name+" refuses all of them")
		}
	}
	return strings.Join(parts, "; ")
}

func tokensAdvice(e fleet.Engine) string {
	const files = "or compute prompts from the model's files (-files MODEL=DIR here, prompt/local in the router)."
	switch e {
	case fleet.EngineVLLM:
		return "Start vLLM with --enable-scale-out for /render (0.32 and about), " + files
	case fleet.EngineTRTLLM:
		return "Start TensorRT-LLM with TRTLLM_ENABLE_RENDER_ENDPOINTS=1, " + files
	case fleet.EngineSGLang, fleet.EngineAuto, fleet.EngineOther:
		return "Let /tokenize through to the router, " + files
	default:
		return ""
	}
}
