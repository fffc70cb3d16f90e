package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kvsteer/kvsteer"
)

// report is what -json prints. Times are modelled seconds of a simulation.
type report struct {
	Simulation bool             `json:"simulation"`
	Seed       uint64           `json:"seed"`
	Speed      float64          `json:"speed"`
	Workloads  []workloadReport `json:"workloads"`
}

type workloadReport struct {
	Name string `json:"name"`
	Rows []row  `json:"rows"`
}

type row struct {
	Router   string  `json:"router"`
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`
	TTFTp50  float64 `json:"ttft_p50_s"`
	TTFTp95  float64 `json:"ttft_p95_s"`
	E2Ep50   float64 `json:"e2e_p50_s"`
	HitRate  float64 `json:"hit_rate"`
}

func (r *result) row() row {
	out := row{
		Router: r.router, Requests: len(r.ttft) + r.failed, Failed: r.failed,
		TTFTp50: percentile(r.ttft, 50), TTFTp95: percentile(r.ttft, 95), E2Ep50: percentile(r.e2e, 50),
	}
	if r.prompt > 0 {
		out.HitRate = float64(r.hit) / float64(r.prompt)
	}
	return out
}

// percentile is by nearest rank, in seconds.
func percentile(ds []time.Duration, p int) float64 {
	if len(ds) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(ds))
	return s[(len(s)*p+99)/100-1].Seconds()
}

func printJSON(w io.Writer, rep report) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(rep)
}

func printTable(w io.Writer, rep report) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "workload\trouter\tTTFT p50\tTTFT p95\tE2E p50\thit rate\tfailed")
	for _, wl := range rep.Workloads {
		for _, r := range wl.Rows {
			fmt.Fprintf(tw, "%s\t%s\t%.2f s\t%.2f s\t%.2f s\t%.0f%%\t%d\n",
				wl.Name, r.Router, r.TTFTp50, r.TTFTp95, r.E2Ep50, 100*r.HitRate, r.Failed)
		}
	}
	return tw.Flush()
}

// verdict says in one line what the table shows.
func verdict(rep report) string {
	var parts []string
	for _, wl := range rep.Workloads {
		var base, ours row
		for _, r := range wl.Rows {
			switch r.Router {
			case baseline:
				base = r
			case candidate:
				ours = r
			}
		}
		parts = append(parts, wl.Name+": "+compared(base.TTFTp50, ours.TTFTp50))
	}
	return strings.Join(parts, "; ")
}

func compared(base, ours float64) string {
	const what = "TTFT p50 "
	switch {
	case base <= 0 || ours <= 0:
		return what + "was not measured"
	case ours <= base:
		return fmt.Sprintf(what+"%.1f times lower", base/ours)
	default:
		return fmt.Sprintf(what+"%.1f times higher", ours/base)
	}
}

// modelled is a copy of a decision with its predictions, made in the wall-clock
// time of the sped-up engines, in modelled time.
func modelled(d *kvsteer.Decision, speed float64) *kvsteer.Decision {
	out := *d
	out.Candidates = slices.Clone(d.Candidates)
	for i := range out.Candidates {
		c := &out.Candidates[i]
		for _, t := range []*time.Duration{
			&c.PredictedTTFT, &c.Externality, &c.PredictedP90, &c.PredictedITL, &c.PredictedE2E,
		} {
			*t = time.Duration(float64(*t) * speed)
		}
	}
	return &out
}

// tellingDecisions picks three that show different things: a prefix met for the
// first time, one that is followed to its holder, and one that is not sent to
// its best holder because another worker answers sooner. Those of the warm-up,
// when the predictor knows nothing of these engines yet, are left out.
func tellingDecisions(all []*kvsteer.Decision, warmUp int) []*kvsteer.Decision {
	ds := slices.DeleteFunc(slices.Clone(all), func(d *kvsteer.Decision) bool { return d.ID <= uint64(warmUp) })
	wants := []func(d *kvsteer.Decision) bool{
		func(d *kvsteer.Decision) bool { return mostCached(d) == 0 },
		func(d *kvsteer.Decision) bool { return mostCached(d) > 0 && d.Winner().CachedTokens == mostCached(d) },
		func(d *kvsteer.Decision) bool { return d.Winner().CachedTokens < mostCached(d) },
	}
	var out []*kvsteer.Decision
	for _, want := range wants {
		if i := slices.IndexFunc(ds, want); i >= 0 {
			out = append(out, ds[i])
		}
	}
	for _, d := range slices.Backward(ds) { // a quiet run shows fewer kinds: fill up
		if len(out) == len(wants) {
			break
		}
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *kvsteer.Decision) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func mostCached(d *kvsteer.Decision) int {
	most := 0
	for i := range d.Candidates {
		most = max(most, d.Candidates[i].CachedTokens)
	}
	return most
}
