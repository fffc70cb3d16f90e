package debug

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// What one frame holds at most.
const (
	mostWorkers   = 256
	mostRanks     = 16
	mostProviders = 64
	mostModels    = 8
	mostRemarks   = 8
	mostPrefixes  = 24
	mostColumns   = 64
	mostRules     = 200
)

// present writes into st how things stand now.
func (h *Handler) present(st *state) {
	stats := h.router.Stats()
	st.Router = routerState{
		InFlight: stats.InFlight, Waiting: stats.Waiting, MaxWaiting: stats.MaxWaiting, Lingering: stats.Lingering,
		Blocks: stats.Index.Blocks, IndexBytes: stats.Index.Bytes, IndexBudget: stats.Index.Budget,
	}
	var outlook []kvsteer.Outlook
	st.part("outlook", func() { outlook = h.router.Outlook() })
	st.part("workers", func() { h.workers(st, &stats, outlook) })
	st.part("providers", func() { h.providers(st) })
	st.part("prefixes", func() { h.prefixes(st) })
	st.part("policy", func() { h.policy(st) })
}

// part reads one part of the state. What a user's predictor or policy panics with must not
// end the process, nor hide the other parts.
func (st *state) part(name string, read func()) {
	defer func() {
		if p := recover(); p != nil {
			st.Unread = append(st.Unread, name)
			st.Problem = "a predictor, policy or provider panicked while the console asked it for: " + strings.Join(st.Unread, ", ")
		}
	}()
	read()
}

// sight is what is known of an instance's ranks beside what the fleet says.
type sight struct {
	outlook map[int]kvsteer.Outlook
	caches  *kvsteer.CacheStats
}

func (h *Handler) workers(st *state, stats *kvsteer.Stats, outlook []kvsteer.Outlook) {
	seen := map[string]*sight{}
	at := func(instance string) *sight {
		s := seen[instance]
		if s == nil {
			s = &sight{outlook: map[int]kvsteer.Outlook{}}
			seen[instance] = s
		}
		return s
	}
	for _, o := range outlook {
		at(o.Instance).outlook[o.Rank] = o
	}
	for i := range stats.Caches {
		at(stats.Caches[i].Instance).caches = &stats.Caches[i]
	}
	f := h.router.Fleet()
	members := slices.Clone(f.Snapshot().Members())
	st.Fleet.Workers = len(members)
	st.Fleet.Problem = undiscovered(f.Status())
	for _, m := range members {
		if m.Routable() {
			st.Fleet.Routable++
		}
	}
	if len(members) > mostWorkers { // those that somebody should look at come first
		slices.SortStableFunc(members, func(a, b *fleet.Member) int {
			return cmp.Compare(b2i(a.Routable()), b2i(b.Routable()))
		})
		st.Fleet.Omitted = len(members) - mostWorkers
		members = members[:mostWorkers]
	}
	now := h.now()
	for _, m := range members {
		st.Workers = append(st.Workers, workerOf(m, at(m.ID()), now))
	}
}

// undiscovered says since when a Discoverer has failed. Why may hold anything: addresses,
// answers of servers, credentials. It is in the fleet's log.
func undiscovered(list []fleet.SourceStatus) string {
	var since time.Time
	for i := range list {
		if s := &list[i]; s.Err != nil && (since.IsZero() || s.ErrAt.Before(since)) {
			since = s.ErrAt
		}
	}
	if since.IsZero() {
		return ""
	}
	return "discovery has failed since " + since.UTC().Format(time.DateTime) + " UTC; the last list stays, the reason is in the gateway's log"
}

// providers lists the external services that the Router may send to.
func (h *Handler) providers(st *state) {
	const typical = 1000 // tokens
	set := h.router.Providers()
	if set == nil {
		return
	}
	var uses map[offered][2]int
	if h.opts.Recorder != nil {
		uses = h.opts.Recorder.uses()
	}
	offers := set.All()
	for _, o := range offers[:min(len(offers), mostProviders)] {
		stands, used := o.Standing(h.now()), uses[offered{o.Provider(), o.Model()}]
		p := providerState{
			Name: short(o.Provider()), Model: short(o.Model()), Kind: short(o.Kind()), Address: short(o.URL().Host),
			Ready: stands.Ready, Reason: cut(stands.Reason, longText), RetryMS: stands.RetryAfter.Milliseconds(),
			Breaker: stands.Breaker.String(), InFlight: stands.InFlight, TTFTMS: milliseconds(o.Expect(typical, 0).TTFT),
			Quota: -1, Considered: used[0], Chosen: used[1],
		}
		if stands.QuotaKnown {
			p.Quota = finite(stands.Remaining)
		}
		st.Providers = append(st.Providers, p)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func workerOf(m *fleet.Member, s *sight, now time.Time) workerState {
	w, health := m.Worker(), m.Health()
	out := workerState{
		Name: short(m.Name()), Instance: short(m.ID()), Address: short(m.URL().Host), Engine: string(m.Engine()),
		Class: short(w.Class), Pool: short(w.Pool), Role: string(w.Role),
		Health: health.State.String(), Draining: m.Draining(), Routable: m.Routable(), Models: []string{},
	}
	if !health.Since.IsZero() {
		out.Since = health.Since.UnixMilli()
	}
	if health.Err != nil {
		out.Problem = cut(health.Err.Error(), longText)
	}
	for _, p := range health.Problems[:min(len(health.Problems), mostRemarks)] {
		out.Remarks = append(out.Remarks, cut(p, longText))
	}
	for _, model := range m.Models() {
		if len(out.Models) == mostModels {
			out.MoreModels++
			continue
		}
		out.Models = append(out.Models, short(model.Name))
	}
	if s.caches != nil {
		for i := range s.caches.Streams {
			out.Events += s.caches.Streams[i].Messages + s.caches.Streams[i].Replayed
			out.Gaps += s.caches.Streams[i].Lost
		}
	}
	for rank := range m.Ranks() {
		if rank == mostRanks {
			out.MoreRanks = m.Ranks() - mostRanks
			break
		}
		out.Ranks = append(out.Ranks, rankOf(m, rank, s, now))
	}
	return out
}

func rankOf(m *fleet.Member, rank int, s *sight, now time.Time) rankState {
	p := m.Pressure(rank, now)
	out := rankState{
		Rank: rank, Trust: kvcache.Blind.String(), TrustReason: "the worker was only just discovered",
		Prefilling: p.PrefillRequests, Decoding: p.DecodeRequests, PrefillTokens: p.PrefillTokens,
		OthersRunning: p.OtherRunning, OthersWaiting: p.OtherWaiting, Fresh: p.Fresh, KVUsage: finite(p.KVUsage), Picks: p.Picks,
		BlockSize: m.BlockSize(), Fill: -1, WaitMS: -1,
	}
	if s.caches != nil && rank < len(s.caches.Ranks) {
		c := &s.caches.Ranks[rank]
		out.Trust, out.TrustReason = c.Trust.String(), cut(c.TrustReason, longText)
		out.Blocks, out.Booked, out.GPU = c.Pairs, c.Provisional, c.GPU
		if c.BlockSize > 0 {
			out.BlockSize = c.BlockSize
		}
	}
	if o, ok := s.outlook[rank]; ok {
		out.Trust, out.TrustReason, out.WaitMS = o.Trust.String(), cut(o.TrustReason, longText), milliseconds(o.Wait)
	}
	if room := capacity(m, rank); room > 0 && out.BlockSize > 0 {
		out.Fill = float64(out.GPU*out.BlockSize) / float64(room)
	}
	return out
}

// capacity is the tokens that the rank's cache has room for, 0 if that is unknown.
func capacity(m *fleet.Member, rank int) int {
	load := m.Load()
	switch {
	case load == nil:
		return 0
	case rank < len(load.Ranks) && load.Ranks[rank].CapacityTokens > 0:
		return load.Ranks[rank].CapacityTokens
	default:
		return load.Total.CapacityTokens / m.Ranks()
	}
}

// holder is a rank as a column.
type holder struct {
	name string
	rank int
}

func (h *Handler) prefixes(st *state) {
	hot := h.router.HotPrefixes(mostPrefixes)
	columns := map[holder]*columnState{}
	for i := range st.Workers {
		w := &st.Workers[i]
		for j := range w.Ranks {
			r := &w.Ranks[j]
			columns[holder{w.Name, r.Rank}] = &columnState{
				Name: rankName(w.Name, r.Rank), Trust: r.Trust, Health: w.Health, Routable: w.Routable,
			}
		}
	}
	holds := map[holder]bool{}
	for i := range hot {
		for _, p := range hot[i].Holders {
			at := holder{short(p.Worker), p.Rank}
			holds[at] = true
			if columns[at] == nil { // not among the workers that are shown
				columns[at] = &columnState{Name: rankName(at.name, at.rank), Routable: true}
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(columns), func(a, b holder) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.rank, b.rank))
	})
	if len(order) > mostColumns {
		slices.SortStableFunc(order, func(a, b holder) int { return cmp.Compare(b2i(holds[b]), b2i(holds[a])) })
		order = order[:mostColumns]
		st.Prefixes.Omitted = max(len(holds)-mostColumns, 0)
	}
	places := map[holder]int{}
	for i, at := range order {
		places[at] = i
		st.Prefixes.Columns = append(st.Prefixes.Columns, *columns[at])
	}
	for i := range hot {
		p := &hot[i]
		row := prefixRow{
			ID: h.alias(p.Key), Blocks: p.Blocks, Tokens: p.Blocks * p.BlockSize, Lookups: finite(p.Lookups),
			Held: make([]int, len(order)), Confirmed: make([]int, len(order)),
		}
		for _, at := range p.Holders {
			if c, ok := places[holder{short(at.Worker), at.Rank}]; ok && at.Blocks > row.Held[c] {
				row.Held[c], row.Confirmed[c] = at.Blocks, at.Confirmed
			}
		}
		st.Prefixes.Rows = append(st.Prefixes.Rows, row)
	}
}

// alias is what a prefix is called on the console.
func (h *Handler) alias(k kvcache.Key) string {
	const length = 4 // bytes
	mac := hmac.New(sha256.New, h.secret)
	_ = binary.Write(mac, binary.BigEndian, uint64(k)) // a hash does not fail
	return hex.EncodeToString(mac.Sum(nil)[:length])
}

func (h *Handler) policy(st *state) {
	p := h.router.PolicyInForce()
	set, ok := p.(outlined)
	if !ok {
		st.Policy = &policyState{Kind: short(fmt.Sprintf("%T", p))}
		return
	}
	out := &policyState{Kind: short(fmt.Sprintf("%T", p)), Version: short(set.Version())}
	left := mostRules
	for _, o := range set.Outline() {
		parts := policyParts{Name: short(o.Policy), Mode: o.Mode.String(), Priority: o.Priority, Pools: words(o.Pools)}
		for i := range o.Rules {
			if left == 0 {
				parts.Omitted = len(o.Rules) - i
				break
			}
			left--
			parts.Rules = append(parts.Rules, ruleOf(&o.Rules[i]))
		}
		out.Policies = append(out.Policies, parts)
		if len(out.Policies) == mostRules {
			break
		}
	}
	st.Policy = out
}

func ruleOf(r *policy.RuleOutline) ruleParts {
	return ruleParts{
		Name: short(r.Name), Matches: words(r.Matches), Considers: cut(r.Considers, longText), Exclusions: words(r.Exclusions),
		Stages: words(r.Stages),
		Empty:  cut(r.Empty.String(), longText), Tags: words(r.Tags),
	}
}

// words bounds a list of texts.
func words(list []string) []string {
	const most = 32
	out := make([]string, 0, min(len(list), most))
	for _, s := range list[:min(len(list), most)] {
		out = append(out, cut(s, longText))
	}
	return out
}
