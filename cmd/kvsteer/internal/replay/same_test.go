package replay_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/replay"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/record"
)

// What was recorded comes out again: whatever the router takes into account, the
// replay does, or the log lacks it.
func TestTheSameChangesNothing(t *testing.T) {
	house := load(t, "testdata/recorded.yaml")
	for name, c := range map[string]struct {
		scene     scene
		predictor kvsteer.Predictor // to replay with
		rejects   bool
		relays    bool
		late      bool
	}{
		"policy": {scene: scene{policy: house}, rejects: true},
		"policy and predictor": {
			scene:     scene{policy: house, options: []kvsteer.Option{kvsteer.WithPredictor(newFrozen())}},
			predictor: newFrozen(), rejects: true,
		},
		"default": {
			scene:     scene{policy: policy.Default{}, options: []kvsteer.Option{kvsteer.WithPredictor(newFrozen())}},
			predictor: newFrozen(),
		},
		"targets": {
			scene:     scene{policy: house, targets: true, options: []kvsteer.Option{kvsteer.WithPredictor(newFrozen())}},
			predictor: newFrozen(), rejects: true,
		},
		"queue": {scene: scene{policy: house, options: []kvsteer.Option{kvsteer.WithQueue(kvsteer.QueueOptions{Hold: 1 << 40})}}, rejects: true},
		"queue and predictor": {
			scene: scene{policy: house, options: []kvsteer.Option{
				kvsteer.WithPredictor(newFrozen()), kvsteer.WithQueue(kvsteer.QueueOptions{Hold: 1 << 40}),
			}},
			predictor: newFrozen(), rejects: true,
		},
		"late": {
			scene:     scene{policy: house, step: 50 * time.Millisecond, options: []kvsteer.Option{kvsteer.WithPredictor(newFrozen())}},
			predictor: newFrozen(), rejects: true, late: true,
		},
		"headers": {
			scene: scene{policy: load(t, "testdata/headers.yaml"), record: record.Options{Headers: []string{"x-tier"}}},
		},
		"prefill and decode": {
			scene: scene{
				policy: policy.Default{}, options: []kvsteer.Option{kvsteer.WithPredictor(newFrozen())},
				role: func(i int) fleet.Role { return []fleet.Role{fleet.RolePrefill, fleet.RoleDecode}[i%2] },
			},
			predictor: newFrozen(), relays: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.scene.requests = 320
			log := c.scene.run(t)
			r := again(t, replay.Config{Policy: c.scene.policy, Predictor: c.predictor, Top: 3}, log)
			require.Empty(t, r.Top)
			require.Zero(t, r.Changed)
			require.Zero(t, r.Models+r.Prefill+r.NewlyRejected+r.NewlyAdmitted)
			require.Empty(t, r.Moves)
			require.Equal(t, &replay.Delta{Decisions: r.TTFT.Decisions}, r.TTFT)
			require.Zero(t, r.OthersMS)
			require.Equal(t, 320, r.Requests)
			require.Equal(t, name != "headers", r.Retries > 20, "there, no worker is left for one")
			require.Equal(t, r.Decisions-r.RejectedBefore, r.TTFT.Decisions)
			require.Equal(t, c.rejects, r.RejectedBefore > 50)
			require.Equal(t, r.RejectedBefore, r.RejectedNow)
			require.Len(t, r.Tenants, 4)
			if p := r.Prediction; p != nil {
				require.InDelta(t, p.BeforeError, p.NowError, 1e-9, "the same predictions")
				require.Greater(t, p.Requests, 50)
			} else {
				require.True(t, c.predictor == nil || c.relays)
			}
			relays, late := 0, 0
			for _, d := range decisions(t, log) {
				for i := range d.Candidates {
					if d.Candidates[i].Late > 0 {
						late++
					}
				}
				if w := d.Winner(); w != nil && w.PrefillOn != "" {
					relays++
				}
			}
			require.Equal(t, c.relays, relays > 50, "%d", relays)
			require.True(t, !c.late || late > 50, "%d", late)
			requireCaveat(t, r, "headers", 0)
			for _, rule := range r.Rules {
				require.Equal(t, rule.Before, rule.Now, rule.Rule)
			}
		})
	}
}

// Another policy changes what it is about, and that alone.
func TestAnotherPolicyChangesWhatItSays(t *testing.T) {
	log := scene{requests: 320, policy: load(t, "testdata/recorded.yaml")}.run(t)
	var total, trials, cobalts, admitted, rejected int
	moved := map[string]int{}
	for _, d := range decisions(t, log) {
		total++
		only := ""
		switch d.Request.Tenant {
		case "trial":
			trials++
		case "cobalt":
			cobalts++
			only = "old"
		default:
			continue
		}
		// The best of those that are left, worked out from the record alone; the recorded
		// rule may have sent it there as well.
		best := -1
		for i := range d.Candidates {
			c := &d.Candidates[i]
			if c.Model == d.Model && (only == "" || c.Labels["build"] == only) &&
				(best < 0 || c.Objective() < d.Candidates[best].Objective()) {
				best = i
			}
		}
		switch {
		case best == d.Chosen:
			continue
		case best < 0:
			rejected++
		case d.Chosen < 0:
			admitted++
		}
		moved[d.Request.Tenant]++
	}
	changed := moved["trial"] + moved["cobalt"]
	r := again(t, replay.Config{Policy: load(t, "testdata/other.yaml"), Top: 1000}, log)
	require.Equal(t, total, r.Decisions)
	require.Equal(t, []int{admitted, rejected, changed}, []int{r.NewlyAdmitted, r.NewlyRejected, r.Changed})
	require.GreaterOrEqual(t, admitted, trials)
	require.Greater(t, moved["cobalt"], 10)
	require.Less(t, changed, total/2)
	require.Len(t, r.Top, changed)
	for _, row := range r.Tenants {
		require.Equal(t, moved[row.Tenant], row.Changed, row.Tenant)
	}
	hits := map[string]int{}
	for _, row := range r.Rules {
		hits[row.Rule] = row.Now
	}
	require.Equal(t, cobalts, hits["cobalt-on-old"])
	require.Equal(t, trials, hits["trial-is-let-in"])
}
