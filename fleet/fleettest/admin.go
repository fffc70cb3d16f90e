package fleettest

import (
	"net/http"
	"strconv"
	"strings"
)

// models lists the base model and its adapters.
func (l *life) models(w http.ResponseWriter, _ *http.Request) {
	cfg := &l.engine.cfg
	owner := "vllm"
	switch cfg.Dialect {
	case SGLang:
		owner = "sglang"
	case TensorRTLLM:
		owner = "tensorrt_llm"
	default:
	}
	created := l.started.Unix()
	data := []object{{
		"id": cfg.Model, "object": "model", "created": created, "owned_by": owner, "root": cfg.Model,
		"parent": nil, "max_model_len": cfg.MaxModelLen, "permission": []object{},
	}}
	for _, a := range cfg.Adapters {
		data = append(data, object{
			"id": a.Name, "object": "model", "created": created, "owned_by": owner, "root": "/adapters/" + a.Name,
			"parent": cfg.Model, "max_model_len": nil, "permission": []object{},
		})
	}
	writeJSON(w, http.StatusOK, object{"object": "list", "data": data})
}

func (l *life) health(w http.ResponseWriter, _ *http.Request) {
	if l.engine.faults.view().unhealthy {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (l *life) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, object{"version": "0.0.0+fleettest"})
}

// serverInfo reports the settings; SGLang's form says where events are.
func (l *life) serverInfo(w http.ResponseWriter, _ *http.Request) {
	cfg := &l.engine.cfg
	size := l.reportedBlockSize()
	if cfg.Dialect == VLLM {
		writeJSON(w, http.StatusOK, object{"vllm_config": object{
			"model": cfg.Model, "block_size": size, "data_parallel_size": cfg.Ranks, "max_model_len": cfg.MaxModelLen,
			"enable_prefix_caching": !cfg.NoPrefixCache,
		}})
		return
	}
	if cfg.Dialect == TensorRTLLM {
		writeJSON(w, http.StatusOK, object{"disaggregated_params": object{}})
		return
	}
	var events any
	if p := l.publishers[0]; p.Publisher != nil {
		events = object{
			"publisher": "zmq", "endpoint": p.endpoint.Events, "topic": p.endpoint.Topic,
			"block_size": size, "dp_size": cfg.Ranks,
		}
	}
	writeJSON(w, http.StatusOK, object{
		"model_path": cfg.Model, "page_size": size, "dp_size": cfg.Ranks, "kv_events": events,
		"disable_radix_cache": cfg.NoPrefixCache,
	})
}

func (l *life) reportedBlockSize() int {
	return either(l.engine.faults.view().blockSize, l.ranks[0].sim.Config().BlockSize)
}

// reset empties the prefix caches. A rank whose blocks are in use keeps its own,
// and the answer is 503, where vLLM only logs it.
func (l *life) reset(w http.ResponseWriter, _ *http.Request) {
	done := true
	for _, r := range l.ranks {
		done = r.reset() && done
	}
	status := http.StatusOK
	if !done {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, object{"success": done})
}

// sleep puts the engine to sleep, which empties its caches, or wakes it.
func (l *life) sleep(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.asleep = strings.HasSuffix(r.URL.Path, "/sleep")
	asleep := l.asleep
	l.mu.Unlock()
	if asleep {
		for _, rank := range l.ranks {
			rank.reset()
		}
	}
	w.WriteHeader(http.StatusOK)
}

func (l *life) sleeping() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asleep
}

func (l *life) isSleeping(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, object{"is_sleeping": l.sleeping()})
}

// parsePrompts reads a request of tokenize, render or count.
func (l *life) parsePrompts(w http.ResponseWriter, r *http.Request, path string) (*body, []*rendered, error) {
	raw, err := l.read(w, r)
	if err != nil {
		return nil, nil, err
	}
	b, err := parseBody(raw)
	if err != nil {
		return nil, nil, err
	}
	if b.Model != "" && l.engine.cfg.adapter(b.Model) < 0 {
		return nil, nil, &apiError{
			status: http.StatusNotFound, kind: "NotFoundError", param: "model", text: l.engine.cfg.notServed(b.Model),
		}
	}
	if path == "/tokenize" {
		path = pathChat
		if present(b.Prompt) {
			path = pathCompletions
		}
	}
	prompts, err := b.prompts(path)
	return b, prompts, err
}

func (l *life) tokenize(w http.ResponseWriter, r *http.Request) {
	_, prompts, err := l.parsePrompts(w, r, r.URL.Path)
	if err != nil || len(prompts) == 0 {
		l.refuse(w, r.URL.Path, either(err, error(badRequest("there is nothing to tokenize"))))
		return
	}
	writeJSON(w, http.StatusOK, object{
		"count": len(prompts[0].tokens), "max_model_len": l.engine.cfg.MaxModelLen,
		"tokens": prompts[0].tokens, "token_strs": nil,
	})
}

// count is /v1/messages/count_tokens.
func (l *life) count(w http.ResponseWriter, r *http.Request) {
	_, prompts, err := l.parsePrompts(w, r, pathMessages)
	if err != nil {
		l.refuse(w, r.URL.Path, err)
		return
	}
	n := len(prompts[0].tokens)
	writeJSON(w, http.StatusOK, object{
		"input_tokens": n, "context_management": object{"original_input_tokens": n},
	})
}

// load reports the number of requests in flight.
func (l *life) load(w http.ResponseWriter, _ *http.Request) {
	n := 0
	for _, r := range l.ranks {
		n += r.load()
	}
	writeJSON(w, http.StatusOK, object{"server_load": n})
}

// eventSources says where each rank's events are.
func (l *life) eventSources(w http.ResponseWriter, _ *http.Request) {
	sources := object{}
	for rank, p := range l.publishers {
		if p.Publisher == nil {
			continue
		}
		var replay any
		if p.endpoint.Replay != "" {
			replay = p.endpoint.Replay
		}
		sources[strconv.Itoa(rank)] = object{
			"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": p.endpoint.Events,
			"replay_endpoint": replay, "topic": p.endpoint.Topic,
		}
	}
	if len(sources) == 0 {
		writeJSON(w, http.StatusNotFound, object{"detail": "Not Found"})
		return
	}
	writeJSON(w, http.StatusOK, sources)
}

// render returns the prompt as an engine would compute it: a list for
// completions, otherwise an object.
func (l *life) render(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/render")
	b, prompts, err := l.parsePrompts(w, r, path)
	if err != nil {
		l.refuse(w, r.URL.Path, err)
		return
	}
	list := make([]object, len(prompts))
	for i, p := range prompts {
		o := object{
			"request_id": l.requestID(r), "token_ids": p.tokens, "token_offsets": nil, "features": nil,
			"model": either(b.Model, l.engine.cfg.Model), "sampling_params": object{}, "stream": b.Stream,
			"priority": b.Priority, "cache_salt": nil, "kv_transfer_params": nil,
		}
		if b.CacheSalt != "" {
			o["cache_salt"] = b.CacheSalt
		}
		if len(p.images) > 0 {
			hashes := make([]string, len(p.images))
			places := make([]object, len(p.images))
			for k, im := range p.images {
				hashes[k] = im.id
				places[k] = object{"offset": im.offset, "length": im.length}
			}
			o["features"] = object{"mm_hashes": object{"image": hashes}, "mm_placeholders": object{"image": places}}
		}
		list[i] = o
	}
	if path != pathCompletions {
		writeJSON(w, http.StatusOK, list[0])
		return
	}
	writeJSON(w, http.StatusOK, list)
}
