package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

func TestVerdict(t *testing.T) {
	rep := report{Workloads: []workloadReport{
		{Name: "a", Rows: []row{{Router: baseline, TTFTp50: 6}, {Router: candidate, TTFTp50: 0.5}}},
		{Name: "b", Rows: []row{{Router: baseline, TTFTp50: 1}, {Router: candidate, TTFTp50: 2}}},
		{Name: "c", Rows: []row{{Router: baseline}, {Router: candidate, TTFTp50: 2}}},
	}}
	assert.Equal(t, "a: TTFT p50 12.0 times lower; b: TTFT p50 2.0 times higher; c: TTFT p50 was not measured", verdict(rep))
}

func TestModelledIsACopy(t *testing.T) {
	d := &kvsteer.Decision{ID: 7, Candidates: []kvsteer.DecisionCandidate{
		{Candidate: policy.Candidate{Name: "w", PredictedTTFT: time.Second, Externality: time.Millisecond}},
	}}
	m := modelled(d, 30)
	assert.Equal(t, 30*time.Second, m.Candidates[0].PredictedTTFT)
	assert.Equal(t, 30*time.Millisecond, m.Candidates[0].Externality)
	assert.Equal(t, time.Second, d.Candidates[0].PredictedTTFT)
	assert.Contains(t, m.String(), "decision 7")
}

// Without a terminal a phase is one line, with one it is drawn again and again.
func TestProgress(t *testing.T) {
	for live, want := range map[bool]string{false: "^  kvsteer      2/2 requests in \\d+\\.\\d s\n$", true: "^\r.* 1/2\r.* 2/2\n$"} {
		var b bytes.Buffer
		p := progress{w: &b, live: live}.phase("kvsteer", 2)
		p.step()
		p.step()
		p.end()
		require.Regexp(t, want, b.String())
	}
}

func TestSpeedIsChecked(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), false, 1, 0, &bytes.Buffer{}, progress{w: &bytes.Buffer{}}), "want a positive number")
}
