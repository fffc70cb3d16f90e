package simulate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/internal/steer"
)

// experiment changes the product to see what a change is worth.
type experiment struct {
	// constant, running, most and waiting are the weights of [steer.Objective].
	constant, running, most, waiting, wanting, wantmost float64
	// progress is 0 to count work ahead as a whole until it is done, answer to leave
	// out how long the call's own answer takes.
	progress, answer float64
	// oracle, if positive, replaces the predictor by the truth.
	oracle float64
	// queue, if positive, holds calls in the router; hold is the predicted wait in
	// seconds up to which one is bound to a busy worker all the same, aging the
	// seconds of work that a second of waiting outweighs.
	// gather is for how many seconds at most one waits for others that come at the same
	// moment, by default as long as the router has it with a queue and without.
	queue, hold, gather, aging float64
	// near is 0 for several routers to choose as one does that is alone; turn is by how many
	// seconds each of them chooses later than the one before it.
	near, turn float64
}

func (x *experiment) parameters() map[string]*float64 {
	return map[string]*float64{
		"constant": &x.constant, "running": &x.running, "most": &x.most, "waiting": &x.waiting, "wanting": &x.wanting, "wantmost": &x.wantmost,
		"progress": &x.progress, "answer": &x.answer, "oracle": &x.oracle,
		"near": &x.near, "turn": &x.turn,
		"queue": &x.queue, "hold": &x.hold, "gather": &x.gather, "aging": &x.aging,
	}
}

// variant makes the product with parameters: name=value, separated by "+".
func variant(params string, seed uint64) (Rule, error) {
	r := NewSteer(seed)
	if params == "" {
		return newTogether(r, defaultTogether), nil
	}
	o := steer.DefaultObjective()
	x := &experiment{
		constant: o.Constant, running: o.Running, most: o.MostRunning, waiting: o.Waiting, wanting: o.Wanting, wantmost: o.MostWanting,
		progress: 1, answer: 1, near: 1, aging: defaultAging, gather: math.NaN(),
	}
	known := x.parameters()
	for p := range strings.SplitSeq(params, "+") {
		name, value, _ := strings.Cut(p, "=")
		v, err := strconv.ParseFloat(value, 64)
		if known[name] == nil || err != nil || !(v >= 0) {
			return nil, fmt.Errorf("kvsteer has no parameter %q; there are %s, each with a number",
				p, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		*known[name] = v
	}
	r.Objective = &steer.Objective{
		Constant: x.constant, Running: x.running, MostRunning: x.most, Waiting: x.waiting, Wanting: x.wanting, MostWanting: x.wantmost,
		NoProgress: x.progress == 0, NoAnswer: x.answer == 0,
	}
	r.Truth, r.near = x.oracle > 0, x.near > 0
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
	r.turn = seconds(x.turn)
	gather := func(usual time.Duration) time.Duration {
		if math.IsNaN(x.gather) {
			return usual
		}
		return seconds(x.gather)
	}
	if x.queue > 0 {
		return newLate(r, seconds(x.hold), gather(defaultGather), x.aging), nil
	}
	if most := gather(defaultTogether); most > 0 {
		return newTogether(r, most), nil
	}
	return r, nil
}
