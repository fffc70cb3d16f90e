package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
)

// judgePrompt compares the prompt as it is known here with the engine's: token for
// token where the engine shows its own (vLLM since 0.11), else by their number.
func (p *prober) judgePrompt(t *trial) (same bool) {
	here := p.enc.Tokens
	if !p.enc.Source.Exact() {
		return true // nothing is claimed; see tokens
	}
	const advice = "Prompts are not known as the engine computes them, so that blocks are not found: see tokens and files."
	switch {
	case t.ids != nil && slices.Equal(t.ids, here), t.ids == nil && (!t.reported || t.usage.Prompt() == len(here)):
		return true
	case len(t.ids) == len(here):
		at := 0
		for here[at] == t.ids[at] {
			at++
		}
		p.add(fault("token %d of the prompt is %d by %s, but %d in the engine", at, here[at], p.enc.Source, t.ids[at]).
			advise(advice))
	default:
		theirs := len(t.ids)
		if t.ids == nil {
			theirs = t.usage.Prompt()
		}
		p.add(fault("the engine counts %d prompt tokens, but by %s there are %d", theirs, p.enc.Source, len(here)).advise(advice))
	}
	return false
}

// judgeUsage looks at what the engine reports of the second request.
func (p *prober) judgeUsage(warm *trial) {
	if !warm.reported {
		p.add(fault("the answer reports no usage").
			advise("Let usage through: predictions are checked, and limits are settled, by what engines report."))
		return
	}
	switch {
	case !warm.usage.CachedKnown:
		p.add(warning("cached tokens are not reported, so that predictions can't be checked").
			advise(cachedAdvice(p.engine)).after("caching"))
	case warm.usage.CacheRead == 0:
		p.add(fault("nothing was cached of a prompt that had just been computed").
			advise("Is prefix caching on? Are there more ranks than one, see above? Do other clients push everything out of the cache?").
			after("caching", "ranks"))
	}
}

func cachedAdvice(e fleet.Engine) string {
	switch e {
	case fleet.EngineVLLM:
		return "Start vLLM with --enable-prompt-tokens-details."
	case fleet.EngineSGLang:
		return "Start SGLang with --enable-cache-report."
	case fleet.EngineTRTLLM, fleet.EngineAuto, fleet.EngineOther:
		return "Let prompt_tokens_details through, if the engine has it."
	default:
		return ""
	}
}

// judgePrediction compares the cached tokens that the engine reports with those that
// the index predicted.
func (p *prober) judgePrediction(cold, warm *trial) {
	if !warm.usage.CachedKnown || warm.usage.CacheRead == 0 {
		return // judgeUsage says so
	}
	for i, t := range []*trial{cold, warm} {
		got := 0 // where nothing was cached some engines say nothing
		if t.usage.CachedKnown {
			got = t.usage.CacheRead
		}
		if t.predicted >= 0 && t.predicted != got {
			advice := "See events and blocks. On a busy engine run this again: what others do between prediction and answer counts too."
			if size := p.blockSize(); t.predicted-got == size && !p.worker.Speculative {
				advice = "One block less is what engines report that draft with EAGLE or MTP: " +
					"set speculative: true in the fleet file if this one does. " + advice
			}
			p.add(fault("request %d: %d tokens were predicted as cached, the engine reports %d", i+1, t.predicted, got).
				advise(advice))
		}
	}
}

// judgeEvents says how the events of the first request came.
func (p *prober) judgeEvents(ctx context.Context, delay time.Duration, heard bool, before int) {
	if !p.connected() {
		return
	}
	if !heard {
		for rank := range p.streams.owners {
			if keys := p.keys(); rank != p.rank && keys != nil && p.streams.held(keys, rank) >= len(keys) {
				p.add(warning("the request was sent to rank %d, but rank %d computed it", p.rank, rank).
					advise("The engine does not heed X-Data-Parallel-Rank (vLLM up to 0.12), or a proxy drops it: " +
						"the router can't choose between ranks.").after("ranks"))
				return
			}
		}
		if p.published() > before {
			p.add(fault("its KV events are of other tokens than the prompt has by %s", p.enc.Source).
				advise("Prompts are not known as the engine computes them, see tokens and files; "+
					"or the address is that of another engine.").
				after("ranks", "events"))
			return
		}
		p.add(fault("it completes requests and publishes no KV events of them").
			advise("Is this the address of the same engine, and topic (if the fleet file has one) its topic? vLLM: "+vllmEvents).
			after("caching", "ranks", "events", "engine"))
		return
	}
	missed, total := p.missed(ctx)
	switch {
	case missed > 0 && missed == total:
		p.add(fault("events did not arrive until they were replayed").
			advise("The engine publishes under another topic than topic in the fleet file, or something between drops them.").
			after("ranks", "events"))
	case missed > 0:
		p.add(warning("%d of %d event messages were lost on their way, and replayed", missed, total).
			advise("Is the network, or this machine, busy? hwm in --kv-events-config is the engine's queue for a subscriber."))
	case delay > late:
		p.add(warning("events came %s after the answer", show(delay)).
			advise("Until they come the router goes by its own bookings. Is the network, or this machine, busy?"))
	}
}

// early reports whether all that was published so far came by a replay alone: the
// engine may have taken notice of the subscription only then. What comes from now on
// tells.
func (p *prober) early(ctx context.Context) bool {
	if !p.connected() {
		return false
	}
	missed, total := p.missed(ctx)
	if missed == 0 || missed < total {
		return false
	}
	for _, one := range p.streams.all {
		if one.follower != nil {
			one.stats.Next = one.follower.Stats().Next
		}
	}
	return true
}

// missed counts the messages since the streams were opened that only a replay
// brought. The latest may be on their way, so they are waited for a little.
func (p *prober) missed(ctx context.Context) (missed, total int) {
	ctx, cancel := context.WithTimeout(ctx, recheck)
	defer cancel()
	wait(ctx, func() bool {
		missed, total = 0, 0
		for _, one := range p.streams.all {
			m, t := one.missedSince()
			missed, total = missed+m, total+t
		}
		return missed == 0
	})
	return missed, total
}

// judgeMetrics says whether the metrics noticed.
func (p *prober) judgeMetrics(ctx context.Context, before float64) {
	if p.metrics == nil || len(p.metrics.named(work(p.engine))) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.patience())
	defer cancel()
	moved := wait(ctx, func() bool {
		page, _, err := p.readMetrics(ctx)
		return err == nil && page.sum(work(p.engine)) > before
	})
	if !moved {
		p.add(fault("metrics stand still while requests complete: the router sees a load that is out of date").
			advise("Does something between here and the engine cache /metrics, or is it that of another process?"))
	}
}

// judgeSpeed says whether the first token kept one waiting.
func (p *prober) judgeSpeed(cold *trial) {
	if cold.first > slow {
		p.add(warning("the first token took %s", show(cold.first)).
			advise("The engine is loaded, or slow: see its own metrics."))
	}
}

// summarise is what there is to say if nothing is wrong.
func (p *prober) summarise(cold, warm *trial, delay time.Duration) {
	facts := Facts{
		"prompt_tokens": warm.usage.Prompt(), "token_source": p.enc.Source.String(),
		"cached": []int{cold.usage.CacheRead, warm.usage.CacheRead}, "predicted": []int{cold.predicted, warm.predicted},
		"ttft_ms": []float64{milliseconds(cold.first), milliseconds(warm.first)},
	}
	if len(p.found) > 0 {
		p.found[0].Facts = facts
		return
	}
	text := fmt.Sprintf("%d tokens sent twice: %d cached, then %d", warm.usage.Prompt(), cold.usage.CacheRead, warm.usage.CacheRead)
	if warm.predicted >= 0 {
		text += fmt.Sprintf(", as predicted; events %s after the answer", show(delay))
		facts["events_ms"] = milliseconds(delay)
	}
	if warm.ids != nil {
		text += "; the engine's token ids are those known here"
	}
	text += fmt.Sprintf("; first token after %s, then %s", show(cold.first), show(warm.first))
	p.add(ok("%s", text).with(facts))
}
