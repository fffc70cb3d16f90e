//go:build planted

package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/chaos"
	"github.com/kvsteer/kvsteer/internal/planted"
)

var only = flag.String("chaos.bug", "", "the only planted bug to look for")

// plantedSeeds is how many seeds a bug may survive.
const plantedSeeds = 200

// bugs are those of package planted, by the invariant that each of them breaks.
func bugs() []bug {
	return []bug{
		{"BookingEndsTwice", chaos.Released},
		{"SelectionEndsTwice", chaos.Released},
		{"PrefillStays", chaos.Released},
		{"CancelKeeps", chaos.Released},
		{"LineForgets", chaos.Released},
		{"EpochIgnored", chaos.ByInstance},
		{"RestartKeepsBlocks", chaos.NoOvercount},
		{"RemovalIgnored", chaos.NoOvercount},
		{"GapUnnoticed", chaos.NoOvercount},
		{"BookingStays", chaos.NoOvercount},
		{"SnapshotTrusted", chaos.NoOvercount},
		{"RetryEscapes", chaos.Policy},
		{"BadPolicyRules", chaos.Policy},
		{"BodyEncodedAnew", chaos.SameBytes},
		{"UsagePassed", chaos.OneAnswer},
		{"RefundForgotten", chaos.Accounts},
		{"SinkErrorDrops", chaos.Accounts},
		{"FollowerStays", chaos.Ends},
		{"PromptInLog", chaos.Secret},
		{"UnknownRefused", chaos.Available},
		{"OutageEmpties", chaos.Listed},
		{"PeerShareStays", chaos.Peers},
		{"ListenGivesUp", chaos.Peers},
	}
}

type bug struct {
	name   string
	breaks chaos.Invariant
}

// Every planted bug is found, by the invariant that it breaks, within some seeds. Each has
// a process of its own: a bug may leave behind what another one would be blamed for.
func TestPlanted(t *testing.T) {
	if os.Getenv(planted.Variable) != "" {
		t.Skip("this is the process of one bug")
	}
	program, err := os.Executable()
	require.NoError(t, err)
	list := bugs()
	lines := make([]string, len(list))
	var group sync.WaitGroup
	slots := make(chan struct{}, 2)
	for i, b := range list {
		if *only != "" && *only != b.name {
			continue
		}
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			seed, steps, out := b.hunt(t, program)
			if !assert.NotEmpty(t, seed, "%s is not found within %d seeds:\n%s", b.name, plantedSeeds, out) {
				seed, steps = "none", "-"
			}
			lines[i] = fmt.Sprintf("%-20s | %-45s | seed %5s | %3s steps", b.name, b.breaks, seed, steps)
		})
	}
	group.Wait()
	t.Logf("planted bugs:\n%s", strings.Join(lines, "\n"))
}

// hunt runs seeds with the bug until it is found.
func (b bug) hunt(t *testing.T, program string) (seed, steps, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "-test.run", "^TestChaos$", "-test.v", "-chaos.seeds", strconv.Itoa(plantedSeeds),
		"-chaos.want", string(b.breaks), "-chaos.patience", "10s", "-chaos.shrink", "15s")
	cmd.Env = append(os.Environ(), planted.Variable+"="+b.name)
	raw, err := cmd.CombinedOutput()
	out = string(raw)
	if err == nil {
		return "", "", out
	}
	m := regexp.MustCompile(`CAUGHT .* seed=(\d+) steps=(\d+)`).FindStringSubmatch(out)
	if m == nil {
		return "", "", out
	}
	return m[1], m[2], out
}
