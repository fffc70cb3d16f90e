package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/replay"
)

const replayData = "internal/replay/testdata/"

var updateReplay = flag.Bool("update-replay", false, "write the golden files of kvsteer replay anew")

func replayed(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = dispatch(context.Background(), commands(), append([]string{"replay"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// What the report of a recorded log looks like, as a table and as JSON.
func TestReplayGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"same.txt":      {"-policy", replayData + "recorded.yaml"},
		"other.txt":     {"-policy", replayData + "other.yaml", "-prices", replayData + "prices.json", "-top", "4"},
		"other.json":    {"-policy", replayData + "other.yaml", "-prices", replayData + "prices.json", "-top", "4", "-json"},
		"predictor.txt": {"-policy", replayData + "recorded.yaml", "-predictor", "default", "-learn", "-top", "1"},
		"default.txt":   {"-policy", "default", "-top", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			args = append(args, "-log", replayData+"log.jsonl")
			code, out, errs := replayed(args...)
			require.Equal(t, exitOK, code, errs)
			require.Empty(t, errs)
			golden := filepath.Join(replayData, name)
			if *updateReplay {
				require.NoError(t, os.WriteFile(golden, []byte(out), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))), out)
			_, twice, _ := replayed(args...)
			require.Equal(t, out, twice)
		})
	}
}

// The example in the documentation is what comes out.
func TestReplayDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/replay.md")
	require.NoError(t, err)
	t.Chdir(replayData)
	code, out, errs := replayed("-log", "log.jsonl", "-policy", "other.yaml", "-prices", "prices.json", "-top", "2")
	require.Equal(t, exitOK, code, errs)
	require.Contains(t, string(bytes.ReplaceAll(page, []byte("\r\n"), []byte("\n"))), "```\n"+out+"```\n")
}

// A directory of policies, and a predictor's state, are as good as what is in them.
func TestReplayReadsWhatItIsGiven(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(replayData + "other.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), text, 0o600))
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	state, err := p.(interface{ MarshalBinary() ([]byte, error) }).MarshalBinary()
	require.NoError(t, err)
	saved := filepath.Join(dir, "predictor.state")
	require.NoError(t, os.WriteFile(saved, state, 0o600))

	report := func(args ...string) (r replay.Report) {
		code, out, errs := replayed(append(args, "-json", "-log", replayData+"log.jsonl")...)
		require.Equal(t, exitOK, code, errs)
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		r.Policy, r.Predictor = "", ""
		return r
	}
	require.Equal(t, report("-policy", replayData+"other.yaml"), report("-policy", dir))
	require.Equal(t,
		report("-policy", dir, "-predictor", "default"), report("-policy", dir, "-predictor", saved))
	// The engine's times were made up by a clock: a fresh predictor can't have been right.
	require.NotNil(t, report("-policy", dir, "-predictor", saved).Prediction)
	require.Positive(t, report("-policy", "round-robin").Changed)
}

func TestReplaySaysWhatIsWrong(t *testing.T) {
	const log = replayData + "log.jsonl"
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("{"), 0o600))
	for want, c := range map[string]struct {
		code int
		args []string
	}{
		"name a decision log with -log":                                  {exitUsage, nil},
		`unexpected argument "x"`:                                        {exitUsage, []string{"-log", log, "x"}},
		"-top is negative":                                               {exitUsage, []string{"-log", log, "-top", "-1"}},
		"-learn needs a -predictor":                                      {exitUsage, []string{"-log", log, "-learn"}},
		"flag provided but not defined":                                  {exitUsage, []string{"-nonsense"}},
		"or give -policy default":                                        {exitFailed, []string{"-log", log}},
		`decision 1 was made by the rule "rest"; name its policies`:      {exitFailed, []string{"-log", log}},
		"missing.jsonl":                                                  {exitFailed, []string{"-log", "missing.jsonl"}},
		"recorded.yaml: record: not a decision log":                      {exitFailed, []string{"-log", replayData + "recorded.yaml"}},
		"the policy: ":                                                   {exitFailed, []string{"-log", log, "-policy", bad}},
		"the predictor: open missing":                                    {exitFailed, []string{"-log", log, "-predictor", "missing"}},
		"the predictor: kvsteer: unusable predictor state":               {exitFailed, []string{"-log", log, "-predictor", bad}},
		"the prices: " + bad + ": prices are a JSON object":              {exitFailed, []string{"-log", log, "-prices", bad}},
		"the prices: " + replayData + "nothing.json: open " + replayData: {exitFailed, []string{"-log", log, "-prices", replayData + "nothing.json"}},
	} {
		code, out, errs := replayed(c.args...)
		require.Equal(t, c.code, code, want)
		require.Empty(t, out)
		require.Contains(t, errs, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errors bytes.Buffer
	require.Equal(t, exitFailed, dispatch(ctx, commands(), []string{"replay", "-policy", "default", "-log", log}, &out, &errors))
	require.Contains(t, errors.String(), "context canceled")
	code, _, errs := replayed("-h")
	require.Equal(t, exitOK, code)
	require.Contains(t, errs, "usage: kvsteer replay")
}
