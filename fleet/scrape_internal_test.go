package fleet

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func scraped(t *testing.T, name string, ranks int) *Load {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	// A proxy may have turned the line ends.
	for _, text := range [][]byte{text, bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))} {
		r, ok := parseMetrics(text)
		require.True(t, ok)
		require.Zero(t, r.stats.Malformed)
		l := r.load(ranks, time.Unix(1, 0))
		if bytes.Contains(text, []byte("\r")) {
			return l
		}
	}
	return nil
}

func TestScrapeRealVLLM(t *testing.T) {
	l := scraped(t, "vllm_0.32_metrics.txt", 1)
	want := RankLoad{
		Known: true, Running: 1, KVKnown: true, KVUsage: 0.0007331378299120228, BlockSize: 32, GPUBlocks: 1365, CapacityTokens: 43680,
		PrefixQueries: 1512, PrefixHits: 832, PromptTokens: 1512, GenerationTokens: 87, requests: 20,
	}
	assert.Equal(t, []RankLoad{want}, l.Ranks)
	assert.Equal(t, want, l.Total)
	assert.False(t, l.Sleeping)
	assert.True(t, l.Started.IsZero())
}

func TestScrapeDataParallel(t *testing.T) {
	l := scraped(t, "vllm_dp.txt", 2)
	require.Len(t, l.Ranks, 2)
	assert.Equal(t, 37, l.Ranks[0].Running)
	assert.Equal(t, 3, l.Ranks[1].Running)
	assert.Equal(t, 40, l.Total.Running)
	assert.Equal(t, 12, l.Total.Waiting, "by_reason is not counted on top")
	assert.InDelta(t, 0.375, l.Total.KVUsage, 1e-9)
	assert.Equal(t, 573, l.Ranks[0].GPUBlocks)
	assert.Zero(t, l.Ranks[1].GPUBlocks, `"None" is unknown`)
	assert.EqualValues(t, 1_000_010, l.Total.PrefixQueries)
	assert.True(t, l.Sleeping)
	assert.Equal(t, []string{"sql", "chat"}, l.RunningAdapters, "of the newest series")
	assert.Equal(t, []string{"code"}, l.WaitingAdapters)
	assert.Equal(t, 4, l.MaxAdapters)
	assert.Equal(t, int64(1795986267), l.Started.Unix())
}

func TestScrapeOldNames(t *testing.T) {
	l := scraped(t, "vllm_old.txt", 1)
	assert.Equal(t, RankLoad{
		Known: true, Running: 2, Waiting: 1, KVKnown: true, KVUsage: 0.75, BlockSize: 32, GPUBlocks: 100,
		CapacityTokens: 3200, PrefixQueries: 40, PrefixHits: 30,
	}, l.Total)
}

func TestScrapeSGLang(t *testing.T) {
	l := scraped(t, "sglang.txt", 2)
	require.Len(t, l.Ranks, 2)
	assert.Equal(t, 5, l.Ranks[0].Running, "the greatest of the tensor-parallel shards, not their sum")
	assert.Equal(t, 2, l.Ranks[0].Waiting)
	assert.Equal(t, 7, l.Ranks[1].Running)
	assert.False(t, l.Ranks[1].KVKnown)
	assert.InDelta(t, 0.1, l.Total.KVUsage, 1e-9)
	assert.EqualValues(t, 600, l.Total.PrefixHits, "of all cache sources")
	assert.EqualValues(t, 900, l.Total.PrefixQueries)
}

func TestScrapeTRTLLM(t *testing.T) {
	l := scraped(t, "trtllm.txt", 1)
	assert.False(t, l.Total.Known, "it reports no queue")
	assert.True(t, l.Total.KVKnown)
	assert.InDelta(t, 0.3, l.Total.KVUsage, 1e-9)
}

func TestRankLabels(t *testing.T) {
	text := func(labels ...string) []byte {
		var b bytes.Buffer
		for i, l := range labels {
			b.WriteString(`vllm:num_requests_running{engine="` + l + `"} ` + string(rune('1'+i)) + "\n")
			b.WriteString(`vllm:num_requests_waiting{engine="` + l + `"} 0` + "\n")
		}
		return b.Bytes()
	}
	cases := []struct {
		name   string
		labels []string
		ranks  int
		want   []int // running, by place
	}{
		{"one", []string{"0"}, 1, []int{1}},
		{"global rank of a node with one", []string{"3"}, 1, []int{1}},
		{"global ranks", []string{"5", "4"}, 2, []int{2, 1}},
		{"a rank is missing", []string{"0", "2"}, 3, []int{1, 0, 2}},
		{"more than declared", []string{"0", "1", "2"}, 1, []int{1, 2, 3}},
		{"not a number", []string{"None"}, 1, []int{1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, ok := parseMetrics(text(c.labels...))
			require.True(t, ok)
			var got []int
			for _, l := range r.load(c.ranks, time.Time{}).Ranks {
				got = append(got, l.Running)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestScrapeNonsense(t *testing.T) {
	for _, text := range []string{"", "[]", `[{"iter":1}]`, "go_goroutines 5\n", "<html>"} {
		_, ok := parseMetrics([]byte(text))
		assert.False(t, ok, text)
	}
	r, ok := parseMetrics([]byte("vllm:num_requests_running NaN\nvllm:num_requests_waiting -3\n" +
		"vllm:kv_cache_usage_perc +Inf\nvllm:prompt_tokens_total 1e300\nvllm:cache_config_info{block_size=\"-1\"} 1\n"))
	require.True(t, ok)
	l := r.load(1, time.Time{})
	assert.False(t, l.Total.Known)
	assert.InDelta(t, 1, l.Total.KVUsage, 1e-9)
	assert.Equal(t, uint64(1<<53), l.Total.PromptTokens)
	assert.Zero(t, l.Total.BlockSize)
}

func BenchmarkParseMetrics(b *testing.B) {
	text, err := os.ReadFile(filepath.Join("testdata", "vllm_0.32_metrics.txt"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := parseMetrics(text); !ok {
			b.Fatal("not known")
		}
	}
}

func FuzzParseMetrics(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, 1)
	}
	f.Add([]byte(`vllm:x{a="\"\\\n",b="}"} 1 1700000000 # {trace="x"} 2`), 3)
	f.Fuzz(func(t *testing.T, text []byte, ranks int) {
		if ranks < 1 || ranks > maxDataParallel {
			ranks = 1
		}
		r, ok := parseMetrics(text)
		if !ok {
			return
		}
		l := r.load(ranks, time.Time{})
		if len(l.Ranks) < ranks || len(l.Ranks) > ranks+maxSeriesGroups {
			t.Fatalf("%d ranks of %d", len(l.Ranks), ranks)
		}
		for _, k := range append(l.Ranks, l.Total) {
			if k.Running < 0 || k.Waiting < 0 || k.BlockSize < 0 || k.GPUBlocks < 0 || k.CapacityTokens < 0 ||
				!(k.KVUsage >= 0 && k.KVUsage <= 1) {
				t.Fatalf("out of range: %+v", k)
			}
		}
	})
}

func FuzzParseModels(f *testing.F) {
	body, err := os.ReadFile(filepath.Join("testdata", "vllm_0.32_models.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"data":[{"id":"a","parent":"a"},{"id":"b","parent":"a","max_model_len":1e3}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		models, _, err := parseModels(body)
		if err != nil {
			if models != nil {
				t.Fatal("both an error and models")
			}
			return
		}
		s, _ := reconcile(nil, models)
		for _, m := range s.models {
			if m.Name == "" || m.Name == m.Parent || m.MaxModelLen < 0 {
				t.Fatalf("accepted %+v", m)
			}
		}
	})
}
