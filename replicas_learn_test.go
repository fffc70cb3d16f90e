package kvsteer_test

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
)

// pupil counts what it is to learn from.
type pupil struct {
	kvsteer.Predictor

	plain, crowded atomic.Int32
}

func (p *pupil) Observe(*kvsteer.Features, time.Duration) { p.plain.Add(1) }

func (p *pupil) ObserveCrowded(*kvsteer.Features, time.Duration) { p.crowded.Add(1) }

// untaught is a Predictor that wants to hear of no crowds.
type untaught struct{ of *pupil }

func (u untaught) Predict(in []kvsteer.Features, out []kvsteer.Prediction) { u.of.Predict(in, out) }

func (u untaught) Observe(f *kvsteer.Features, ttft time.Duration) { u.of.Observe(f, ttft) }

// Two routers choose the same worker at the same moment: how long either request takes says
// nothing of what its router knew. The next one knows of both.
func TestACrowdTeachesNothingOfTheLoad(t *testing.T) {
	for _, hears := range []bool{true, false} {
		var stopped atomic.Int64 // the fleets' clock, once it has stopped
		p := &pupil{Predictor: kvsteer.NewPredictor(kvsteer.PredictorOptions{})}
		var predictor kvsteer.Predictor = p
		if !hears {
			predictor = untaught{p}
		}
		g := newGateways(t, gatewaysConfig{
			// With a short beat a pause of the machine has a peer die and come back: that is news.
			engines: 1, routers: 2, beat: time.Hour,
			options: []kvsteer.Option{kvsteer.WithPredictor(predictor)},
			fleet: func(_ int, o *fleet.Options) {
				o.Now = func() time.Time {
					if at := stopped.Load(); at != 0 {
						return time.Unix(0, at)
					}
					return time.Now()
				}
			},
		})
		random := rand.New(rand.NewPCG(8, 9))
		stopped.Store(time.Now().UnixNano())
		mine, theirs := g.pick(0, unique(random, 1600)), g.pick(1, unique(random, 1600))
		t.Cleanup(func() { theirs.Abort(errors.New("enough")) })
		heard := func(requests int) func() bool {
			return func() bool {
				return g.fleets[0].Snapshot().Member("w0").Peers(0).PrefillRequests == requests
			}
		}
		g.eventually(heard(1), "the other's is known")
		mine.FirstToken()
		mine.Abort(errors.New("enough"))
		require.Zero(t, p.plain.Load())
		if hears {
			require.EqualValues(t, 1, p.crowded.Load())
		} else {
			require.Zero(t, p.crowded.Load())
		}

		stopped.Add(int64(time.Second))
		next := g.pick(0, unique(random, 1600))
		next.FirstToken()
		next.Abort(errors.New("enough"))
		require.EqualValues(t, 1, p.plain.Load(), "it counted the other's")
	}
}
