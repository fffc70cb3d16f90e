package doctor

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

const recorded = "../../../../fleet/testdata/"

func readPage(t *testing.T, file string) *metricsPage {
	t.Helper()
	b, err := os.ReadFile(recorded + file)
	require.NoError(t, err)
	return &metricsPage{series: parseMetrics(string(b))}
}

// All that is wanted of metrics is in those of a real engine.
func TestNeedsOfRealMetrics(t *testing.T) {
	t.Parallel()
	page := readPage(t, "vllm_0.32_metrics.txt")
	assert.Equal(t, 1, page.ranks())
	assert.Equal(t, 2, readPage(t, "vllm_dp.txt").ranks())
	for _, n := range needs(fleet.EngineVLLM) {
		assert.NotEmpty(t, page.named(n.names[0]), n.what)
	}
}

func TestParseMetrics(t *testing.T) {
	t.Parallel()
	got := parseMetrics("# HELP a b\n\na 1\nb{} 2 1700000000\nc{x=\"}\",y=\"a b\"} 3e2\r\nbroken\nd{ 4\ne} 5\nf{x=\"1\"} no\n g  6 ")
	assert.Equal(t, []series{
		{"a", "", 1}, {"b", "", 2}, {"c", `x="}",y="a b"`, 300}, {"e}", "", 5}, {"g", "", 6},
	}, got)
}

func FuzzParseMetrics(f *testing.F) {
	f.Add("vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1.0\n")
	f.Add("a{b=\"}\"} 1\n}{ 2\n{} \n")
	f.Fuzz(func(t *testing.T, text string) {
		page := &metricsPage{series: parseMetrics(text)}
		if page.ranks() > len(page.series) {
			t.Fatal("more ranks than series")
		}
		for _, s := range page.series {
			if len(page.named(s.name)) == 0 {
				t.Fatalf("%q is not found", s.name)
			}
		}
	})
}
