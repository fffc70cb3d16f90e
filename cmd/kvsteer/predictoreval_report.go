package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

const (
	percent = 100
	deciles = 10
)

// evalReport is the outcome for one file. Shares are percentages.
type evalReport struct {
	File     string `json:"file"`
	Lines    int    `json:"lines"`
	WithTTFT int    `json:"lines_with_ttft"`
	WithITL  int    `json:"lines_with_itl"`
	Warmup   int    `json:"warmup"`
	// Used counts the lines that the figures below are of.
	Used int `json:"used"`
	// CachedRows of them were predicted with prefix_cache_score as cached tokens.
	CachedRows  int          `json:"cached_rows"`
	MedianAPE   float64      `json:"ttft_median_ape_pct"`
	MeanAPE     float64      `json:"ttft_mean_ape_pct"`
	P50Coverage float64      `json:"p50_coverage_pct"`
	P90Coverage float64      `json:"p90_coverage_pct"`
	ITLUsed     int          `json:"itl_used"`
	ITLMedian   float64      `json:"itl_median_ape_pct"`
	ITLMean     float64      `json:"itl_mean_ape_pct"`
	Deciles     []evalDecile `json:"deciles"`
}

// evalDecile is a tenth of the lines, in order of the measured TTFT.
type evalDecile struct {
	Rows        int     `json:"rows"`
	FromMS      float64 `json:"from_ms"`
	ToMS        float64 `json:"to_ms"`
	MedianAPE   float64 `json:"median_ape_pct"`
	MeanAPE     float64 `json:"mean_ape_pct"`
	MedianBias  float64 `json:"median_bias_pct"` // predicted against measured
	P90Coverage float64 `json:"p90_coverage_pct"`
}

func (r *evalReport) fill(ttft, itl *sample) {
	r.Used, r.ITLUsed = len(ttft.rows), len(itl.rows)
	r.MedianAPE, r.MeanAPE = apes(ttft.rows)
	r.ITLMedian, r.ITLMean = apes(itl.rows)
	r.P50Coverage = covered(ttft.rows, func(p pair) bool { return p.actual <= p.mid })
	r.P90Coverage = covered(ttft.rows, func(p pair) bool { return p.actual <= p.high })
	slices.SortStableFunc(ttft.rows, func(a, b pair) int { return cmp.Compare(a.actual, b.actual) })
	for d := range deciles {
		rows := ttft.rows[len(ttft.rows)*d/deciles : len(ttft.rows)*(d+1)/deciles]
		if len(rows) == 0 {
			continue
		}
		e := evalDecile{Rows: len(rows), FromMS: rows[0].actual, ToMS: rows[len(rows)-1].actual}
		e.MedianAPE, e.MeanAPE = apes(rows)
		bias := make([]float64, len(rows))
		for i, p := range rows {
			bias[i] = percent * (p.predicted/p.actual - 1)
		}
		e.MedianBias = median(bias)
		e.P90Coverage = covered(rows, func(p pair) bool { return p.actual <= p.high })
		r.Deciles = append(r.Deciles, e)
	}
}

// apes returns the median and the mean absolute percentage error.
func apes(rows []pair) (med, mean float64) {
	if len(rows) == 0 {
		return 0, 0
	}
	all := make([]float64, len(rows))
	sum := 0.0
	for i := range rows {
		all[i] = percent * rows[i].ape()
		sum += all[i]
	}
	return median(all), sum / float64(len(rows))
}

// median sorts v, which must not be empty.
func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func covered(rows []pair, in func(pair) bool) float64 {
	n := 0
	for _, p := range rows {
		if in(p) {
			n++
		}
	}
	return percent * float64(n) / float64(len(rows))
}

func printEval(w io.Writer, reports []*evalReport, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(reports)
	}
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := r.print(w); err != nil {
			return err
		}
	}
	return nil
}

func (r *evalReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", r.File)
	fmt.Fprintf(w, "  rows used        %d (of %d lines %d carry a TTFT; the first %d are learned from only)\n",
		r.Used, r.Lines, r.WithTTFT, r.Warmup)
	if r.CachedRows > 0 {
		fmt.Fprintf(w, "  cached tokens    by prefix_cache_score in %d rows\n", r.CachedRows)
	}
	fmt.Fprintf(w, "  TTFT error       median %.2f%%, mean %.2f%%\n", r.MedianAPE, r.MeanAPE)
	if r.P50Coverage > 0 { // a decision log has none
		fmt.Fprintf(w, "  coverage         p50 %.1f%%, p90 %.1f%%\n", r.P50Coverage, r.P90Coverage)
	} else {
		fmt.Fprintf(w, "  coverage         p90 %.1f%%\n", r.P90Coverage)
	}
	if r.ITLUsed > 0 {
		fmt.Fprintf(w, "  ITL error        median %.2f%%, mean %.2f%% (%d rows)\n", r.ITLMedian, r.ITLMean, r.ITLUsed)
	}
	fmt.Fprintln(w, "\n  by measured TTFT, errors in percent:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "  decile\trows\tfrom ms\tto ms\tmedian\tmean\tbias\tp90 cover\t")
	for i, d := range r.Deciles {
		fmt.Fprintf(t, "  %d\t%d\t%.0f\t%.0f\t%.2f\t%.2f\t%+.2f\t%.1f\t\n",
			i+1, d.Rows, d.FromMS, d.ToMS, d.MedianAPE, d.MeanAPE, d.MedianBias, d.P90Coverage)
	}
	return t.Flush()
}
