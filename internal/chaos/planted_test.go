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
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/chaos"
	"github.com/kvsteer/kvsteer/internal/planted"
)

var only = flag.String("chaos.bug", "", "the only planted bug to look for")

const (
	// plantedSeeds is how many seeds a bug may survive: many more than the rarest needs.
	plantedSeeds = 600
	// soundSeeds are run without a bug.
	soundSeeds = 200
)

// bugs are those of package planted, by the invariant that each of them breaks, and by what
// the violation must say: another one of the same invariant may have another cause.
func bugs() []bug {
	return []bug{
		{"BookingEndsTwice", chaos.Released, `less than nothing`},
		{"SelectionEndsTwice", chaos.Released, `Selections began and \d+ ended`},
		{"PrefillStays", chaos.Released, `in flight.*Prefill`},
		{"CancelKeeps", chaos.Released, `in flight.*(Selections|bookings)`},
		{"LineForgets", chaos.Released, `in flight.*(Selections|in line)`},
		{"EpochIgnored", chaos.ByInstance, `is listed with epoch`},
		{"RestartKeepsBlocks", chaos.NoOvercount, `is thought to have`},
		{"RemovalIgnored", chaos.NoOvercount, `is thought to have`},
		{"GapUnnoticed", chaos.NoOvercount, `is thought to have`},
		{"BookingStays", chaos.NoOvercount, `booked an hour ago|is thought to have`},
		{"RanksMixed", chaos.NoOvercount, `rank [01], is (thought|exact)`},
		{"UndecodableKept", chaos.NoOvercount, `is thought to have \d+ tokens of prompt \d+ \(exact\)|is exact, is thought`},
		{"SnapshotTrusted", chaos.NoOvercount, `snapshot that was damaged`},
		{"RetryEscapes", chaos.Policy, `private`},
		{"BadPolicyRules", chaos.Policy, `is in force, where nothing but`},
		{"BodyEncodedAnew", chaos.SameBytes, `client \d+ sent`},
		{"UsagePassed", chaos.OneAnswer, `a chunk of usage that it did not ask for`},
		{"AnswersTwice", chaos.OneAnswer, `got 2 answers in one`},
		{"RefundForgotten", chaos.Accounts, `under way`},
		{"SinkErrorDrops", chaos.Accounts, `records were taken`},
		{"FollowerStays", chaos.Ends, `follow`},
		{"PromptInLog", chaos.Secret, `the log has|outcome`},
		{"PromptInLedger", chaos.Secret, `the ledger has`},
		{"UnknownRefused", chaos.Available, `status 400`},
		{"UnknownUnserved", chaos.Available, `status 503, "no_candidates"`},
		{"OutageEmpties", chaos.Listed, `not in the fleet any more`},
		{"BreakUnnoticed", chaos.Heals, `no end of their answer|has waited`},
		{"LegStays", chaos.Released, `in flight.*(Prefill|bookings)`},
		{"LegEscapes", chaos.Policy, `private`},
		{"PrefillAnswers", chaos.Legs, `role "prefill"`},
		{"RateIgnored", chaos.Limits, `the bucket can have held`},
		{"DrainIgnored", chaos.Drained, `which was drained`},
		{"PeerShareStays", chaos.Peers, `counts`},
		{"ListenGivesUp", chaos.Peers, `the exchange is up`},
	}
}

type bug struct {
	name   string
	breaks chaos.Invariant
	says   string
}

// Every planted bug is found, by the invariant that it breaks, within some seeds. Each has
// a process of its own: a bug may leave behind what another one would be blamed for.
func TestPlanted(t *testing.T) {
	if os.Getenv(planted.Variable) != "" {
		t.Skip("this is the process of one bug")
	}
	program, err := os.Executable()
	require.NoError(t, err)
	list := append(bugs(), bug{name: "none"})
	lines := make([]string, len(list))
	var next atomic.Int64
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				if b := list[i]; *only == "" || *only == b.name {
					lines[i] = b.line(t, program)
					t.Log(lines[i])
				}
			}
		})
	}
	group.Wait()
	t.Logf("planted bugs:\n%s", strings.Join(lines, "\n"))
}

// line says how a bug was found, or that nothing was where there is none.
func (b bug) line(t *testing.T, program string) string {
	t.Helper()
	if b.name == "none" {
		out, err := seedsWith(t, program, b.name, soundSeeds)
		if !assert.NoError(t, err, "without a bug something is found, which bugs would be blamed for:\n%s", out) {
			return "without a bug something is found"
		}
		return fmt.Sprintf("without a bug nothing is found in %d seeds", soundSeeds)
	}
	c, out := b.hunt(t, program)
	if !assert.NotEmpty(t, c.seed, "%s is not found within %d seeds:\n%s", b.name, plantedSeeds, out) {
		c = caught{"none", "-", strconv.Itoa(plantedSeeds), ""}
	}
	return fmt.Sprintf("%-20s | %-45s | seed %5s of %3s tried | %3s steps | %s", b.name, b.breaks, c.seed, c.tried, c.steps, c.text)
}

// seedsWith runs seeds in a process with a bug, "none" for one without.
func seedsWith(t *testing.T, program, bug string, n int, more ...string) (out string, err error) {
	t.Helper()
	args := append([]string{"-test.run", "^TestChaos$", "-test.v", "-chaos.seeds", strconv.Itoa(n), "-chaos.worlds", "8", "-chaos.patience", "20s"}, more...)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), planted.Variable+"="+bug)
	raw, err := cmd.CombinedOutput()
	return string(raw), err
}

// caught is how a bug was found.
type caught struct {
	seed, steps string // after shrinking
	tried       string // how many seeds were run until then, side by side
	text        string
}

// hunt runs seeds with the bug until it is found.
func (b bug) hunt(t *testing.T, program string) (c caught, out string) {
	t.Helper()
	out, err := seedsWith(t, program, b.name, plantedSeeds, "-chaos.want", string(b.breaks), "-chaos.says", b.says, "-chaos.shrink", "15s")
	m := regexp.MustCompile(`CAUGHT seed=(\d+) steps=(\d+): (.*)`).FindStringSubmatch(out)
	tried := regexp.MustCompile(`, (\d+) run in`).FindStringSubmatch(out)
	if err == nil || m == nil || tried == nil {
		return caught{}, out
	}
	return caught{m[1], m[2], tried[1], m[3]}, out
}
