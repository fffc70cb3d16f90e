package doctor

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/trtllm"
)

// How engines are told to publish.
const (
	vllmEvents = `--kv-events-config '{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557",` +
		`"replay_endpoint":"tcp://*:5558"}'`
	sglangEvents = `--page-size 16 --kv-events-config '{"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}'`
	trtllmEvents = `kv_cache_config: {enable_block_reuse: true, event_buffer_max_size: 16384}`
)

// source is where an engine says that it publishes, /kv_event_sources.
type source struct {
	Endpoint string `json:"endpoint"`
	Replay   string `json:"replay_endpoint"`
	Topic    string `json:"topic"`
}

// checkEvents: do the engine's KV events arrive, all of them?
func checkEvents(ctx context.Context, p *patient) []Finding {
	if p.reachable && p.engine == fleet.EngineVLLM {
		p.get(ctx, "/kv_event_sources", &p.sources)
	}
	if len(p.worker.Events) == 0 && p.opts.Discover {
		p.worker.Events = p.advertised()
	}
	switch {
	case len(p.worker.Events) == 0:
		return p.noEvents()
	case slices.ContainsFunc(p.worker.Events, polled):
		return p.checkPolled(ctx)
	}
	p.streams = openStreams(ctx, &p.worker, p.opts.Events, p.opts.ask())
	patience, cancel := context.WithTimeout(ctx, 2*p.opts.ask())
	defer cancel()
	var found []Finding
	for _, one := range p.streams.all {
		if one.follower != nil {
			wait(patience, one.settled)
			one.baseline = one.follower.Stats().Next
		}
		name := one.endpoint.Events
		if p.worker.Ranks() > 1 {
			name = fmt.Sprintf("rank %d, %s", one.endpoint.Rank, name)
		}
		found = append(found, about(name, p.judge(one))...)
	}
	return found
}

// advertised is where the engine says that it publishes, as addresses that can be
// dialled from here.
func (p *patient) advertised() []follow.Endpoint {
	base, err := url.Parse(p.worker.URL)
	if err != nil {
		return nil
	}
	var all []follow.Endpoint
	for rank := range p.worker.Ranks() {
		s, known := p.sources[rank]
		if !known {
			return nil
		}
		at := func(address string) string {
			for _, any_ := range []string{"//*:", "//0.0.0.0:", "//[::]:"} {
				address = strings.Replace(address, any_, "//"+bracketed(base.Hostname())+":", 1)
			}
			return address
		}
		all = append(all, follow.Endpoint{Events: at(s.Endpoint), Replay: at(s.Replay), Rank: rank})
	}
	return all
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// noEvents: none are configured.
func (p *patient) noEvents() []Finding {
	advice := "Let the engine publish, and name the addresses as events in the fleet file. "
	if at := p.advertised(); len(at) > 0 {
		lines := make([]string, len(at))
		for i, ep := range at {
			lines[i] = fmt.Sprintf("{events: %q, replay: %q}", ep.Events, ep.Replay)
		}
		return warning("none are configured, though the engine publishes them: routing is approximate",
			"Add to the worker in the fleet file: events: ["+strings.Join(lines, ", ")+"]")
	}
	switch p.engine {
	case fleet.EngineVLLM:
		advice += "vLLM: " + vllmEvents
	case fleet.EngineSGLang:
		advice += "SGLang: " + sglangEvents
	case fleet.EngineTRTLLM:
		advice += fmt.Sprintf("TensorRT-LLM: %s in its options, and events: [{events: %q}]", trtllmEvents, p.worker.URL)
	case fleet.EngineAuto, fleet.EngineOther:
		return ok("none, of this kind of engine: routing is approximate")
	default:
	}
	return warning("none are configured: routing is approximate", advice)
}

// polled reports whether events are fetched over HTTP, as those of TensorRT-LLM.
func polled(ep follow.Endpoint) bool { return strings.HasPrefix(strings.ToLower(ep.Events), "http") }

// checkPolled asks whether events could be fetched, without doing so: what one
// consumer fetches, the router never sees.
func (p *patient) checkPolled(ctx context.Context) []Finding {
	if p.engine == fleet.EngineVLLM || p.engine == fleet.EngineSGLang {
		return fault("an address to fetch events from, which "+title(p.engine)+" does not have",
			"Write tcp://HOST:PORT, the engine's host and the port of its endpoint.")
	}
	// Servers answer this method with 405 where they have the path, and with 404 where
	// they don't; but for those that answer 404 to all of them.
	a, err := p.ask(ctx, http.MethodOptions, trtllm.Path)
	if err != nil {
		return fault(fmt.Sprintf("%s: %v", trtllm.Path, err), "Look into the engine's log.")
	}
	other, err := p.ask(ctx, http.MethodOptions, prompt.Chat.Path())
	const untouched = "events were not fetched, because that would take them away from the router"
	switch {
	case a.status != http.StatusNotFound:
		return ok("%s is there; %s", trtllm.Path, untouched)
	case err != nil || other.status == http.StatusNotFound:
		return skipped("the engine does not say whether it has %s; %s", trtllm.Path, untouched)
	}
	return fault("the engine has no "+trtllm.Path, "Use a version of trtllm-serve that has it, and set "+trtllmEvents+" in its options.")
}

// judge says what came of following an address.
func (p *patient) judge(one *stream) []Finding {
	if one.follower == nil {
		return fault(fmt.Sprintf("not an address to subscribe to: %v", one.err), "Write tcp://HOST:PORT, the engine's host and the port of its endpoint.")
	}
	st := one.follower.Stats()
	blocks := 0
	for rank, o := range p.streams.owners {
		if one.rank < 0 || one.rank == rank {
			blocks += p.streams.index.Resident(o)
		}
	}
	facts := Facts{
		"trust": st.Trust.String(), "reason": string(st.Reason), "messages": one.messages(), "next_seq": st.Next,
		"events": st.Events, "malformed": st.Malformed, "unknown": st.Unknown, "blocks": blocks,
	}
	if problem := one.follower.Problem(); problem != "" {
		return with(facts, fault(shortProblem(problem), p.connectAdvice(problem)))
	}
	if st.Trust != kvcache.Exact {
		return with(facts, p.inexact(one, &st))
	}
	topics := peek(one.tap, func(o *observed) []string {
		var other []string
		for t := range o.topics {
			if !strings.HasPrefix(t, one.endpoint.Topic) {
				other = append(other, t)
			}
		}
		return other
	})
	if s := p.sources[one.endpoint.Rank]; s.Topic != "" && !strings.HasPrefix(s.Topic, one.endpoint.Topic) {
		topics = append(topics, s.Topic)
	}
	switch {
	case len(topics) > 0:
		return with(facts, fault(fmt.Sprintf("subscribed to topic %q, but the engine publishes under %q: nothing arrives until it is replayed",
			one.endpoint.Topic, topics[0]), "Take topic out of the fleet file, or correct it."))
	case st.Foreign > 0:
		return with(facts, fault(fmt.Sprintf("%d events are of ranks that the worker is not said to have", st.Foreign),
			"Set dataParallel, and list an event address for each rank."))
	case st.Malformed > 0:
		return with(facts, warning(fmt.Sprintf("%d of %d events are malformed and were left out", st.Malformed, st.Malformed+st.Events),
			"Please report this, with the engine's version."))
	case st.Next == 0 && p.hasWorked():
		return with(facts, fault("connected, and the engine has computed prompts, but it has published nothing",
			"Is this the address of the same engine, and are KV events on? vLLM: "+vllmEvents))
	case st.Next == 0:
		return with(facts, ok("connected, replay answers; the engine is idle and has published nothing yet"))
	}
	more := ""
	if st.Unknown > 0 {
		more = fmt.Sprintf("; %d events of kinds that are new here were passed over", st.Unknown)
	}
	return with(facts, ok("exact: all since the engine started is known, %s, %s%s", plural(int(st.Next), "message"), plural(blocks, "block"), more))
}

// shortProblem leaves out of a Follower's problem what the line has already.
func shortProblem(problem string) string {
	what, rest, _ := strings.Cut(problem, " (")
	if _, why, cut := strings.Cut(rest, "): "); cut {
		return what + ": " + why
	}
	return problem
}

func (p *patient) connectAdvice(problem string) string {
	if strings.HasPrefix(problem, "replay") {
		return "Check replay in the fleet file: it is the engine's replay_endpoint, another port than that of the events."
	}
	said := ""
	if s := p.sources[0]; s.Endpoint != "" {
		said = " The engine itself says that it publishes at " + s.Endpoint + "."
	}
	switch p.engine {
	case fleet.EngineSGLang:
		return "Does the engine publish, and on this port? SGLang: " + sglangEvents + said
	case fleet.EngineVLLM, fleet.EngineTRTLLM, fleet.EngineAuto, fleet.EngineOther:
	default:
	}
	return "Does the engine publish, and on this port? vLLM binds an address with a star only (tcp://*:5557); others it connects to: " + vllmEvents + said
}

// inexact says why what is known of the engine's cache is not all there is.
func (p *patient) inexact(one *stream, st *follow.Stats) []Finding {
	why := string(st.Reason)
	switch st.Reason {
	case follow.ReasonNoReplay:
		return warning("no replay address: of an engine that runs already, the cache stays unknown in part",
			"Add replay to the address in the fleet file: the engine's replay_endpoint.")
	case follow.ReasonWrapped:
		return warning("the engine remembers only its latest messages: what was cached before is not known",
			"It mends itself once the engine's cache is reset or the engine restarts. Raise buffer_steps in --kv-events-config to keep it from happening again.")
	case follow.ReasonLost:
		return fault("messages are missing that the engine can't repeat: what was known before them had to be dropped",
			"The engine failed to encode them, or two engines publish on one address. It mends itself once the cache is reset; look into the engine's log.")
	case follow.ReasonUndecodable:
		return fault("messages could not be decoded: what was known before them had to be dropped",
			"Something damages them, or the address is not one of KV events. Please report it if it is.")
	case follow.ReasonMalformed:
		return fault("events of a known kind could not be used", "Please report this, with the engine's version.")
	case follow.ReasonRefused:
		return fault("events did not fit what was known: the block size changed, or there are too many",
			"Two engines on one address? See blocks below.")
	case follow.ReasonConflict:
		return fault("two publishers number messages on this address", "Give each engine, and each rank, an address of its own.")
	case follow.ReasonEvicted, follow.ReasonBudget, follow.ReasonOrphanBound:
		return ok("connected, replay answers; more blocks than are kept for this look (%s)", why)
	case follow.ReasonUnanswered, follow.ReasonNotConnected, follow.ReasonStarting, follow.ReasonDisconnected, follow.ReasonGap:
		return fault(fmt.Sprintf("no answer within %v (%s)", 2*p.opts.ask(), why), p.connectAdvice(""))
	case follow.ReasonNone, follow.ReasonStale, follow.ReasonSnapshot, follow.ReasonClosed:
	default:
	}
	if p.streams.index.Hybrid(p.streams.owners[max(one.rank, 0)]) {
		return warning("the model has attention of a kind whose reuse can't be told from events: predictions are approximate",
			"Nothing to mend; docs/compat.md has the limits of hybrid models.")
	}
	return warning("not exact: "+why, "See docs/events.md.")
}

// hasWorked reports whether the engine has computed prompts that fill blocks, by
// its own metrics.
func (p *patient) hasWorked() bool {
	if p.metrics == nil || p.engine == fleet.EngineTRTLLM {
		return false
	}
	const enough = 4 // blocks of one prompt at the least, to be sure that there was an event
	requests := p.metrics.sum("vllm:request_success_total") + p.metrics.sum("sglang:num_requests_total")
	size := 16
	if p.member != nil && p.member.BlockSize() > 0 {
		size = p.member.BlockSize()
	}
	return p.metrics.sum(work(p.engine)) > float64(enough*size)*max(1, requests)
}
