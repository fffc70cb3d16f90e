package simulate

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

func TestReadTrace(t *testing.T) {
	const trace = `{"timestamp": 2000, "input_length": 1100, "output_length": 0, "hash_ids": [0, 5, 6]}

{"timestamp": 1000, "input_length": 1024, "output_length": 3, "hash_ids": [0, 4]}
{"timestamp": 3000.5, "input_length": 100, "output_length": 3, "hash_ids": []}
`
	calls, err := ReadTrace(strings.NewReader(trace), TraceBlock, 0)
	require.NoError(t, err)
	require.Len(t, calls, 3)
	first, second, third := calls[0], calls[1], calls[2]
	require.Equal(t, time.Second, first.At, "in order of time")
	require.Equal(t, 3000500*time.Microsecond, third.At)
	require.Equal(t, []int{1024, 1100, 100}, []int{first.Prompt, second.Prompt, third.Prompt})
	require.Equal(t, []int{3, 1, 3}, []int{first.Output, second.Output, third.Output})
	require.Len(t, first.Blocks, 2)
	require.Len(t, second.Blocks, 2, "the third is not full")
	require.Empty(t, third.Blocks)
	require.Equal(t, first.Blocks[0], second.Blocks[0])
	require.NotEqual(t, first.Blocks[1], second.Blocks[1])
	require.NotEqual(t, first.Session, second.Session)

	small, err := ReadTrace(strings.NewReader(trace), 16, 2)
	require.NoError(t, err)
	require.Len(t, small, 2, "the limit")
	require.Len(t, small[0].Blocks, 64)
	require.Len(t, small[1].Blocks, 1100/16)
	require.Equal(t, small[0].Blocks[:32], small[1].Blocks[:32])
	require.NotEqual(t, small[0].Blocks[32], small[1].Blocks[32])

	large, err := ReadTrace(strings.NewReader(trace), 1024, 0)
	require.NoError(t, err)
	require.Len(t, large[0].Blocks, 1)
	require.NotEqual(t, large[0].Blocks[0], large[1].Blocks[0])
}

func TestReadTraceRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":   {"\n", "empty"},
		"no JSON":   {"{}\nx", "line 1"},
		"no prompt": {`{"timestamp":0,"input_length":0,"output_length":1}`, "line 1: input_length"},
		"huge":      {`{"timestamp":0,"input_length":1e9,"output_length":1}`, "line 1"},
		"the past":  {`{"timestamp":-1,"input_length":1,"output_length":1}`, "line 1"},
	} {
		_, err := ReadTrace(strings.NewReader(c.text), 16, 0)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := ReadTrace(strings.NewReader(""), 48, 0)
	require.ErrorContains(t, err, "48")
}

func FuzzReadTrace(f *testing.F) {
	f.Add(`{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}`, 16)
	f.Add(`{"timestamp": 0, "input_length": 1, "output_length": 0}`+"\n"+`{"input_length": 9}`, 1024)
	f.Fuzz(func(t *testing.T, text string, blockSize int) {
		if blockSize < 1 {
			return
		}
		calls, err := ReadTrace(strings.NewReader(text), blockSize, 100)
		if err != nil {
			return
		}
		require.NotEmpty(t, calls)
		for i, c := range calls {
			require.Positive(t, c.Prompt)
			require.Positive(t, c.Output)
			require.LessOrEqual(t, len(c.Blocks)*blockSize, c.Prompt)
			require.True(t, i == 0 || calls[i-1].At <= c.At)
		}
	})
}

func TestReadFleet(t *testing.T) {
	specs, err := ReadFleet(strings.NewReader(`
workers:
  - count: 2
    class: h100
    prefill_rate: 12000
    cache_tokens: 1000000
    block_size: 64
    token_budget: 8192
    max_running: 128
    role: prefill
  - block_size: 64
    speed: 0.5
    outages: [{at: 1m30s, for: 20s}, {at: 5m}]
transfer_rate: 50000
`))
	require.NoError(t, err)
	require.InDelta(t, 5e4, specs.TransferRate, 0)
	all, err := expand(specs.Workers)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, WorkerSpec{
		Count: 1, Class: "h100", PrefillRate: 12000, Speed: 1, CacheTokens: 1_000_000, BlockSize: 64,
		TokenBudget: 8192, MaxRunning: 128, Role: fleet.RolePrefill,
	}, all[1])
	require.Equal(t, []Outage{{At: 90 * time.Second, For: 20 * time.Second}, {At: 5 * time.Minute}}, all[2].Outages)
	require.True(t, Split(specs.Workers))
	require.True(t, Fails(specs.Workers))
	require.False(t, Split(all[2:]))
	require.False(t, Fails(all[:2]))
	require.InDelta(t, 1.0/12000, all[0].timing().PrefillToken, 1e-12)
	require.InDelta(t, 2*366e-6, all[2].timing().PrefillToken, 1e-12)
	require.InDelta(t, 2*36e-3, all[2].timing().Base, 1e-12)

	for _, text := range []string{
		"workers: [{speed: -1}]", "workers: [{count: 5000}]", "workers: []", "workers: [{prefill_rate: .nan}]",
		fmt.Sprintf("workers: [{count: 1}, {count: %d}]", math.MaxInt), "workers: [{role: both}]", "workers: [{role: prefill}]", "workers: [{outages: [{at: 2m}, {at: 3m}]}]",
		"workers: [{outages: [{at: 2m, for: 2m}, {at: 3m}]}]", "workers: [{outages: [{at: 2m, for: -1m}]}]",
	} {
		specs, err := ReadFleet(strings.NewReader(text))
		require.NoError(t, err)
		_, err = expand(specs.Workers)
		require.Error(t, err, text)
	}
	_, err = ReadFleet(strings.NewReader("workers: [{sped: 1}]"))
	require.ErrorContains(t, err, "sped")
}

func FuzzReadFleet(f *testing.F) {
	f.Add("workers: [{count: 2, role: prefill, prefill_rate: 1e4}, {role: decode, outages: [{at: 1m, for: 2s}]}]\ntransfer_rate: 5e4")
	f.Add("workers:\n- {class: old, speed: 0.5, cache_tokens: 400000, token_budget: 8192, max_running: 8}")
	f.Fuzz(func(t *testing.T, text string) {
		fleet, err := ReadFleet(strings.NewReader(text))
		if err != nil {
			return
		}
		all, err := expand(fleet.Workers)
		if err != nil {
			return
		}
		require.NotEmpty(t, all)
		require.LessOrEqual(t, len(all), maxWorkers)
		for _, s := range all {
			require.Positive(t, s.BlockSize)
			require.GreaterOrEqual(t, s.timing().Base, 0.0)
		}
	})
}

func TestWorkloads(t *testing.T) {
	w := SharedPrefix(16, nil)
	w.Reseed(1)
	sessions := map[uint64]*Call{}
	for range 1000 {
		calls := w.Session()
		require.Len(t, calls, 1)
		c := calls[0]
		require.Equal(t, 16_256, c.Prompt)
		require.Equal(t, 256, c.Output)
		require.Len(t, c.Blocks, 16_256/16)
		if other := sessions[c.Session]; other != nil {
			require.Equal(t, other.Blocks[:1000], c.Blocks[:1000])
			require.NotEqual(t, other.Blocks[1000], c.Blocks[1000])
		}
		sessions[c.Session] = c
	}
	require.Len(t, sessions, 24)

	w = MultiTurn(16, nil)
	calls, others := w.Session(), w.Session()
	require.Len(t, calls, 8)
	require.NotEqual(t, calls[0].Blocks[0], others[0].Blocks[0])
	for i, c := range calls {
		require.Equal(t, 8000+400*i, c.Prompt)
		require.Len(t, c.Blocks, (c.Prompt+256)/16, "the answer can be reused")
		if i > 0 {
			require.Equal(t, calls[i-1].Blocks, c.Blocks[:len(calls[i-1].Blocks)])
		}
	}

	w = Control(16, nil)
	one, other := w.Session()[0], w.Session()[0]
	require.NotEqual(t, one.Blocks[0], other.Blocks[0])
}
