package kvcachetest_test

import (
	"flag"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/kvcachetest"
)

// broken names the broken transport that TestBrokenTransport runs the suite on.
var broken = flag.String("broken", "", "run the suite on this broken transport; it must fail")

// TestBrokenTransport is run by TestTransportSuiteCatches in a process of its
// own, since it must fail and may hang or leak.
func TestBrokenTransport(t *testing.T) {
	if *broken == "" {
		t.Skip("only run by TestTransportSuiteCatches")
	}
	h := harness()
	h.Timeout = 1500 * time.Millisecond
	h.Transport = faults()[*broken].transport(transport())
	kvcachetest.TestTransport(t, h)
}

// TestTransportSuiteCatches proves that the suite fails on transports that break
// one rule each, and that it is the rule's own subtest that fails.
func TestTransportSuiteCatches(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process per fault")
	}
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "believes-any-size" && strconv.IntSize == 32 {
				t.Skip("an int can't hold a size that zmtp would believe")
			}
			// The anchors keep a case from matching its longer namesakes.
			cmd := exec.CommandContext(t.Context(), testBinary(t), "-test.run=^TestBrokenTransport$/^"+f.caughtBy+"$",
				"-test.timeout=4m", "-broken="+name)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "the suite passed a transport that %s", name)
			require.Contains(t, string(out), "--- FAIL: TestBrokenTransport/"+f.caughtBy)
		})
	}
}

// TestTransportSuiteCovered: no case of the suite goes unproven.
func TestTransportSuiteCovered(t *testing.T) {
	var proven []string
	for _, f := range faults() {
		proven = append(proven, f.caughtBy)
	}
	require.ElementsMatch(t, kvcachetest.TransportCases(), proven)
}

func testBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}
