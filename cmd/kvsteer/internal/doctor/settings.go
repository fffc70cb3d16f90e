package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
)

// checkCaching: is prefix caching on?
func checkCaching(_ context.Context, p *patient) findings {
	off := false
	known := false
	if p.metrics != nil {
		for _, s := range p.metrics.named("vllm:cache_config_info") {
			known = known || strings.Contains(s.labels, "enable_prefix_caching=")
			off = off || strings.Contains(s.labels, `enable_prefix_caching="False"`)
		}
	}
	if p.info.NoRadix != nil {
		known, off = true, *p.info.NoRadix
	}
	switch {
	case off && p.engine == fleet.EngineSGLang:
		return fault("prefix caching is off: there is nothing to route by").
			advise("Start SGLang without --disable-radix-cache.")
	case off:
		return fault("prefix caching is off: there is nothing to route by").
			advise("Start vLLM with --enable-prefix-caching, or without --no-enable-prefix-caching.")
	case known:
		return ok("prefix caching is on")
	default:
		return skipped("the engine does not say whether prefix caching is on; -probe shows it")
	}
}

// checkRanks: do all sides have the same data-parallel ranks?
func checkRanks(_ context.Context, p *patient) findings {
	declared := p.worker.Ranks()
	seen := p.info.DataParallel
	if p.metrics != nil {
		seen = max(seen, p.metrics.ranks())
	}
	if p.engine != fleet.EngineSGLang && len(p.sources) > seen {
		seen = len(p.sources)
	}
	facts := Facts{"declared": declared, "engine": seen}
	switch {
	case seen > 0 && seen != declared:
		return fault("dataParallel is %d, but the engine has %d: its ranks have a cache each and can't be told apart", declared, seen).
			advise(fmt.Sprintf("Set dataParallel: %d in the fleet file, and list an event address for each rank "+
				"(vLLM and SGLang add the rank to the port).", seen)).with(facts)
	case declared == 1:
		return ok("one").with(facts)
	}
	return ok("%d", declared).with(facts)
}

// checkBlocks: do all sides have the same block size?
func checkBlocks(_ context.Context, p *patient) findings {
	declared, reported, announced := p.worker.BlockSize, 0, 0
	if p.member != nil && p.member.Load() != nil {
		reported = p.member.Load().Total.BlockSize
	}
	if reported == 0 {
		reported = p.info.PageSize
	}
	if p.streams != nil {
		announced = p.streams.blockSize()
	}
	facts := Facts{"declared": declared, "engine": reported, "events": announced}
	const wrong = "Blocks are then looked up by one size and known by another, so that nothing is found. "
	switch {
	case declared > 0 && announced > 0 && declared != announced, declared > 0 && announced == 0 && reported > 0 && declared != reported:
		return fault("blockSize is %d, but the engine's is %d", declared, max(announced, reported)).
			advise(wrong + "Correct blockSize in the fleet file, or leave it out.").with(facts)
	case reported > 0 && announced > 0 && reported != announced:
		return fault("the engine says %d, but its events have %d", reported, announced).
			advise("The router goes by the events. If these are of another engine, correct the event address; " +
				"with decode context parallelism the two may differ rightly.").with(facts)
	case announced > 0 && reported > 0:
		return ok("%d tokens, by events and by the engine's own word", announced).with(facts)
	case announced > 0:
		return ok("%d tokens, by events", announced).with(facts)
	case reported > 0:
		return ok("%d tokens, by the engine's own word", reported).with(facts)
	case declared > 0:
		return ok("%d tokens, as declared; the engine says nothing", declared).with(facts)
	case len(p.worker.Events) > 0:
		return ok("not known yet; the first event tells it").with(facts)
	}
	return ok("not known; without events the router takes it to be 16 tokens, " +
		"which only sets how finely it tells prompts apart").with(facts)
}
