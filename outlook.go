package kvsteer

import (
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/providers"
)

// Outlook is what a request would find on one data-parallel rank of a worker: for people
// who look on.
type Outlook struct {
	Worker, Instance string
	Rank             int
	// Trust is how far what is known of its cache is counted on, TrustReason why no
	// further, as in decisions.
	Trust       kvcache.Trust
	TrustReason string
	// Wait is by how much later than on the idle rank the first token of a very short
	// prompt is expected. Requests that wait in the router are not counted.
	Wait time.Duration
}

// Outlook has an entry for each rank of each worker, by name, whether it takes requests
// or not. The predictor is asked twice about each: call it every few seconds, not for
// each request.
func (r *Router) Outlook() []Outlook {
	var (
		out        []Outlook
		busy, idle steer.Round
		now        = r.opts.now()
	)
	for _, m := range r.fleet.Snapshot().Members() {
		home, q := r.residency.of(m.ID()), steer.Prompt{Model: baseModel(m), Tokens: 1}
		for rank := range m.Ranks() {
			standing := r.index.Standing(home.owner(rank))
			trust := home.trusted(rank, standing.Trust)
			out = append(out, Outlook{
				Worker: m.Name(), Instance: m.ID(), Rank: rank,
				Trust: trust, TrustReason: home.degraded(rank, trust, standing.Reason),
			})
			p := steer.Place{Name: m.Name(), Instance: m.ID(), Rank: rank, Class: m.Worker().Class}
			idle.Add(&q, &p)
			laden(&p, m, rank, now)
			busy.Add(&q, &p)
		}
	}
	idle.Predict(&asks{predictor: r.predictor})
	busy.Predict(&asks{predictor: r.predictor})
	for i := range out {
		out[i].Wait = max(busy.Candidates[i].PredictedTTFT-idle.Candidates[i].PredictedTTFT, 0)
	}
	return out
}

// laden fills in what a rank has to do: ours, what other routers tell of, and what
// else its engine reports.
func laden(p *steer.Place, m *fleet.Member, rank int, now time.Time) {
	load := m.Pressure(rank, now)
	all := together(&load)
	p.Prefilling, p.Decoding, p.Coming = all.PrefillRequests, all.DecodeRequests, all.Coming
	p.OwnPrefilling = load.InFlight.PrefillRequests
	p.PrefillTokens, p.PrefillPairs = all.PrefillTokens, all.PrefillPairs
	p.OtherWaiting, p.OtherRunning = load.OtherWaiting, load.OtherRunning
	p.KVUsage, p.ReportAge = load.KVUsage, load.Age
	if all.PrefillRequests > 0 {
		p.PrefillFor = max(now.Sub(all.PrefillSince), 0)
	}
}

// baseModel is the first model that a worker serves and that is no adapter.
func baseModel(m *fleet.Member) string {
	for _, model := range m.Models() {
		if model.Parent == "" {
			return model.Name
		}
	}
	return ""
}

// Providers returns the external services that [WithProviders] named, nil if it named none.
func (r *Router) Providers() *providers.Set { return r.opts.providers }

// HotPrefix is a beginning that prompts have had in common lately.
type HotPrefix struct {
	// Key is that of its last block, a hash; Blocks is its length.
	Key    kvcache.Key
	Blocks int
	// BlockSize is that of the first worker that holds any of it, in tokens; 0 if nobody
	// does.
	BlockSize int
	// Lookups are the requests to workers whose prompts began with it lately: one of a
	// minute ago counts for half.
	Lookups float64
	// Holders are the ranks that hold any of it.
	Holders []PrefixHolder
}

// PrefixHolder is a rank that holds Blocks of a prefix, from its start on. Of these the
// first Confirmed are known from its engine's events; the others are expected.
type PrefixHolder struct {
	Worker, Instance string
	Rank             int
	Blocks           int
	Confirmed        int
}

// HotPrefixes returns up to n prefixes that prompts have had in common lately, those that
// spare most work first. The first call returns none: with it the index begins to count,
// see [kvcache.Index.HotPrefixes].
func (r *Router) HotPrefixes(n int) []HotPrefix {
	var (
		owners []kvcache.Owner
		who    []place
	)
	for _, m := range r.fleet.Snapshot().Members() {
		home := r.residency.of(m.ID())
		for rank := range m.Ranks() {
			owners, who = append(owners, home.owner(rank)), append(who, place{member: m, rank: rank})
		}
	}
	var out []HotPrefix
	for _, h := range r.index.HotPrefixes(owners, n) {
		p := HotPrefix{Key: h.Key, Blocks: h.Blocks, Lookups: h.Lookups}
		for i := range h.Hits {
			if h.Hits[i].Blocks == 0 {
				continue
			}
			if at := who[i]; p.BlockSize == 0 {
				p.BlockSize = r.blockSize(owners[i], at.member)
			}
			p.Holders = append(p.Holders, PrefixHolder{
				Worker: who[i].member.Name(), Instance: who[i].member.ID(), Rank: who[i].rank,
				Blocks: int(h.Hits[i].Blocks), Confirmed: int(h.Hits[i].Confirmed),
			})
		}
		out = append(out, p)
	}
	return out
}
