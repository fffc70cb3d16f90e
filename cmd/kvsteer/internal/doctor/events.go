package doctor

import (
	"context"
	"encoding/json"
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

// source is where an engine says that a rank publishes.
type source struct {
	Rank     int    `json:"data_parallel_rank"` // in lists only
	Endpoint string `json:"endpoint"`
	Replay   string `json:"replay_endpoint"`
	Topic    string `json:"topic"`
}

// sources is vLLM's /kv_event_sources, by rank.
type sources map[int]source

// UnmarshalJSON takes an object by rank, as vLLM 0.32 has it, and a list, as others
// do.
func (s *sources) UnmarshalJSON(b []byte) error {
	var list []source
	if json.Unmarshal(b, &list) != nil {
		return json.Unmarshal(b, (*map[int]source)(s))
	}
	*s = sources{}
	for _, one := range list {
		(*s)[one.Rank] = one
	}
	return nil
}

// checkEvents: do the engine's KV events arrive, all of them?
func checkEvents(ctx context.Context, p *patient) findings {
	switch {
	case len(p.worker.Events) == 0 && !p.reachable: // of which not even the kind is known
		return skipped("the worker does not answer, and none are configured")
	case len(p.worker.Events) == 0:
		return p.noEvents()
	case slices.ContainsFunc(p.worker.Events, polled):
		return p.checkPolled(ctx)
	}
	p.streams = openStreams(ctx, &p.worker, p.opts.Events, p.opts.ask())
	patience, cancel := context.WithTimeout(ctx, 2*p.opts.ask())
	defer cancel()
	var found findings
	for _, one := range p.streams.all {
		if one.follower != nil {
			wait(patience, one.settled)
		}
		name := one.endpoint.Events
		if p.worker.Ranks() > 1 {
			name = fmt.Sprintf("rank %d, %s", one.endpoint.Rank, name)
		}
		found = append(found, p.judge(one).about(name)...)
	}
	return found
}

// askSources asks where the engine publishes.
func (p *patient) askSources(ctx context.Context) {
	if p.engine != fleet.EngineVLLM {
		return
	}
	p.get(ctx, "/kv_event_sources", &p.sources)
	if at := p.advertised(); p.opts.Discover && len(p.worker.Events) == 0 && len(at) > 0 {
		p.worker.Events, p.worker.DataParallel = at, len(at)
	}
}

// advertised is where the engine says that it publishes, as addresses that can be
// dialled from here; nil unless it says so of all its ranks.
func (p *patient) advertised() []follow.Endpoint {
	base, err := url.Parse(p.worker.URL)
	if err != nil {
		return nil
	}
	var all []follow.Endpoint
	for rank := range len(p.sources) {
		s, known := p.sources[rank]
		if !known {
			return nil
		}
		at := func(address string) string {
			for _, wildcard := range []string{"//*:", "//0.0.0.0:", "//[::]:"} {
				address = strings.Replace(address, wildcard, "//"+bracketed(base.Hostname())+":", 1)
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
func (p *patient) noEvents() findings {
	advice := "Let the engine publish, and name the addresses as events in the fleet file. "
	if at := p.advertised(); len(at) > 0 {
		lines := make([]string, len(at))
		for i, ep := range at {
			lines[i] = fmt.Sprintf("{events: %q, replay: %q}", ep.Events, ep.Replay)
		}
		return warning("none are configured, though the engine publishes them: routing is approximate").
			advise("Add to the worker in the fleet file: events: [" + strings.Join(lines, ", ") + "]").after("ranks")
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
	return warning("none are configured: routing is approximate").advise(advice)
}

// polled reports whether events are fetched over HTTP, as those of TensorRT-LLM.
func polled(ep follow.Endpoint) bool { return strings.HasPrefix(strings.ToLower(ep.Events), "http") }

// checkPolled asks whether events could be fetched, without doing so: what one
// consumer fetches, the router never sees.
func (p *patient) checkPolled(ctx context.Context) findings {
	if p.engine == fleet.EngineVLLM || p.engine == fleet.EngineSGLang {
		return fault("an address to fetch events from, which %s does not have", title(p.engine)).
			advise("Write tcp://HOST:PORT, the engine's host and the port of its endpoint.")
	}
	// Servers answer this method with 405 where they have the path, and with 404 where
	// they don't; but for those that answer 404 to all of them.
	a, err := p.ask(ctx, http.MethodOptions, trtllm.Path)
	if err != nil {
		return fault("%s: %v", trtllm.Path, err).advise("Look into the engine's log.")
	}
	other, err := p.ask(ctx, http.MethodOptions, prompt.Chat.Path())
	const untouched = "events were not fetched, because that would take them away from the router"
	switch {
	case a.status != http.StatusNotFound:
		return ok("%s is there; %s", trtllm.Path, untouched)
	case err != nil || other.status == http.StatusNotFound:
		return skipped("the engine does not say whether it has %s; %s", trtllm.Path, untouched)
	}
	return fault("the engine has no %s", trtllm.Path).
		advise("Use a version of trtllm-serve that has it, and set " + trtllmEvents + " in its options.")
}

// judge says what came of following an address.
func (p *patient) judge(one *stream) findings {
	if one.follower == nil {
		return fault("not an address to subscribe to: %v", one.err).
			advise("Write tcp://HOST:PORT, the engine's host and the port of its endpoint.")
	}
	st := &one.stats
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
		return fault("%s", shortProblem(problem)).advise(p.connectAdvice(problem)).after("health").with(facts)
	}
	if st.Trust != kvcache.Exact {
		return p.inexact(one, st).with(facts)
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
		return fault("subscribed to topic %q, but the engine publishes under %q: nothing arrives until it is replayed",
			one.endpoint.Topic, topics[0]).
			advise("Take topic out of the fleet file, or correct it.").with(facts)
	case st.Foreign > 0:
		return fault("%d events are of ranks that the worker is not said to have", st.Foreign).
			advise("Set dataParallel, and list an event address for each rank.").with(facts)
	case st.Malformed > 0:
		return warning("%d of %d events are malformed and were left out", st.Malformed, st.Malformed+st.Events).
			advise("Please report this, with the engine's version.").with(facts)
	case st.Next == 0 && p.hasWorked():
		return fault("connected, and the engine has computed prompts, but it has published nothing").
			advise("Is this the address of the same engine, and are KV events on? vLLM: " + vllmEvents).with(facts)
	case st.Next == 0:
		return ok("connected, replay answers; the engine is idle and has published nothing yet").with(facts)
	}
	more := ""
	if st.Unknown > 0 {
		more = fmt.Sprintf("; %d events of kinds that are new here were passed over", st.Unknown)
	}
	return ok("exact: all since the engine started is known, %s, %s%s",
		plural(int(st.Next), "message"), plural(blocks, "block"), more).with(facts)
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
	return "Does the engine publish, and on this port? vLLM binds an address with a star only (tcp://*:5557); others it connects to: " +
		vllmEvents + said
}

// inexact says why what is known of the engine's cache is not all there is.
func (p *patient) inexact(one *stream, st *follow.Stats) findings {
	why := string(st.Reason)
	switch st.Reason {
	case follow.ReasonNoReplay:
		return warning("no replay address: of an engine that runs already, the cache stays unknown in part").
			advise("Add replay to the address in the fleet file: the engine's replay_endpoint, which it gets by the same option as " +
				"its endpoint. vLLM: " + vllmEvents)
	case follow.ReasonWrapped:
		return warning("the engine remembers only its latest messages: what was cached before is not known").
			advise("It mends itself once the engine's cache is reset or the engine restarts. " +
				"Raise buffer_steps in --kv-events-config to keep it from happening again.")
	case follow.ReasonLost:
		return fault("messages are missing that the engine can't repeat: what was known before them had to be dropped").
			advise("The engine failed to encode them, or two engines publish on one address: look into its log. " +
				"It mends itself once the cache is reset.")
	case follow.ReasonUndecodable:
		return fault("messages could not be decoded: what was known before them had to be dropped").
			advise("Something damages them, or the address is not one of KV events. Please report it if it is.")
	case follow.ReasonMalformed:
		return fault("events of a known kind could not be used").
			advise("Please report this, with the engine's version.")
	case follow.ReasonRefused:
		return fault("events did not fit what was known: the block size changed, or there are too many").
			advise("Two engines on one address? See blocks below.")
	case follow.ReasonConflict:
		return fault("two publishers number messages on this address").
			advise("Give each engine, and each rank, an address of its own.")
	case follow.ReasonEvicted, follow.ReasonBudget, follow.ReasonOrphanBound:
		return ok("connected, replay answers; more blocks than are kept for this look (%s)", why)
	case follow.ReasonUnanswered, follow.ReasonNotConnected, follow.ReasonStarting, follow.ReasonDisconnected, follow.ReasonGap:
		return fault("no answer within %v (%s)", 2*p.opts.ask(), why).advise(p.connectAdvice("")).after("health")
	case follow.ReasonNone, follow.ReasonStale, follow.ReasonSnapshot, follow.ReasonClosed:
	default:
	}
	if p.streams.index.Hybrid(p.streams.owners[max(one.rank, 0)]) {
		return warning("the model has attention of a kind whose reuse can't be told from events: predictions are approximate").
			advise("Nothing to mend; docs/compat.md has the limits of hybrid models.")
	}
	return warning("not exact: %s", why).advise("See docs/events.md.")
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
