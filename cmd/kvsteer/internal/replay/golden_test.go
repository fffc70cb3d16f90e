package replay_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

var update = flag.Bool("update", false, "record testdata/log.jsonl anew; then update the golden files of the command")

// The log of the command's golden files is a router's.
func TestRecordGolden(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	log := scene{
		requests: 60, policy: load(t, "testdata/recorded.yaml"), step: 25 * time.Millisecond,
		options: []kvsteer.Option{kvsteer.WithPredictor(newFrozen())},
	}.run(t)
	require.NoError(t, os.WriteFile("testdata/log.jsonl", log, 0o600))
}
