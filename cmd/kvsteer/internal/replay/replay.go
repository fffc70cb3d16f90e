package replay

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/record"
)

// Config is what is to be different.
type Config struct {
	// Policy decides. Nil is for logs of the default policy, and means that one.
	Policy policy.Policy
	// PolicyName is what the report calls it.
	PolicyName string
	// Predictor predicts, from what the recorded one was asked. Nil leaves predictions
	// as they were recorded.
	Predictor     kvsteer.Predictor
	PredictorName string
	// Learn lets the Predictor observe the recorded times to first token as it goes.
	Learn bool
	// Prices are those of candidates that were recorded without one. It may be nil.
	Prices *Prices
	// Top is how many of the decisions that differ most are told in words.
	Top int
}

// Replay is one comparison. It is not safe for concurrent use.
type Replay struct {
	cfg   Config
	judge judge
	tally tally

	// unended are the decisions whose requests have not ended yet.
	unended map[key]*pending
}

// key is a decision's number among those of several runs.
type key struct {
	run string
	id  uint64
}

// pending is what the end of a request is compared with.
type pending struct {
	d       *kvsteer.Decision
	was, is int
	// recorded and again are the predictions for where it went.
	recorded, again time.Duration
	predicted       bool
}

// maxUnended bounds what is remembered of requests whose end is not in the log.
const maxUnended = 1 << 18

// ErrPolicyNeeded is returned for a log of another policy than the default, when none
// is given.
var ErrPolicyNeeded = errors.New("the log is of another policy than the default")

// New returns a Replay.
func New(c Config) *Replay {
	r := &Replay{cfg: c, unended: map[key]*pending{}}
	r.judge = judge{policy: c.Policy, predictor: c.Predictor, prices: c.Prices}
	if c.Policy == nil {
		r.judge.policy = policy.Default{}
	}
	r.tally.start(&r.cfg, r.judge.policy)
	return r
}

// Read takes in a log. Files of one log are read in order, the oldest first.
func (r *Replay) Read(name string, log io.Reader) error {
	r.tally.files = append(r.tally.files, name)
	r.tally.top.file = name
	err := record.Read(log, func(e *record.Entry) error {
		if err := r.entry(e); err != nil {
			return fmt.Errorf("line %d: %w", e.Line, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (r *Replay) entry(e *record.Entry) error {
	t := &r.tally
	switch {
	case e.Header != nil:
		t.header(e.Header)
	case e.Damage != "":
		t.blind.damaged++
	case e.Lost != nil:
		t.blind.lost += e.Lost.Entries
	case e.Outcome != nil:
		r.ended(e.Run, e.Outcome)
	case e.Decision != nil:
		d := e.Decision
		if r.cfg.Policy == nil && d.Rule != policy.DefaultRule {
			return fmt.Errorf("%w: decision %d was made by the rule %q", ErrPolicyNeeded, d.ID, d.Rule)
		}
		v := r.judge.decide(d, e.Rejected)
		t.decision(&v, e)
		r.await(e.Run, &v)
	}
	return nil
}

// await remembers a decision until its request ends.
func (r *Replay) await(run string, v *verdict) {
	if v.d.ID == 0 { // nobody was chosen, so nothing ends
		return
	}
	if len(r.unended) >= maxUnended {
		clear(r.unended) // of failed attempts there is no end: most of these are old
	}
	p := &pending{d: v.d, was: v.was, is: v.is, predicted: v.predicted}
	if v.was >= 0 {
		p.recorded = v.d.Candidates[v.was].PredictedTTFT
		p.again = v.candidates[v.was].PredictedTTFT
	}
	r.unended[key{run, v.d.ID}] = p
}

// ended compares what was measured, and what it cost.
func (r *Replay) ended(run string, o *record.Outcome) {
	t := &r.tally
	t.outcomes++
	k := key{run, o.Decision}
	p := r.unended[k]
	if p == nil {
		t.blind.strayed++
		return
	}
	delete(r.unended, k)
	if p.was >= 0 && o.TTFT > 0 && !o.Moved && p.d.Attempt == 1 && p.d.Candidates[p.was].PrefillOn == "" {
		if p.predicted {
			t.measured(o.TTFT, p.recorded, p.again)
		}
		if r.cfg.Learn && p.predicted {
			f := p.d.Features[p.was]
			r.cfg.Predictor.Observe(&f, o.TTFT)
		}
	}
	if !o.Usage.Known {
		t.blind.lengthless++
		return
	}
	before, ok := r.judge.costs(p.d, p.was, o.Usage.Output)
	after, known := r.judge.costs(p.d, p.is, o.Usage.Output)
	if !ok || !known {
		t.blind.priceless++
		return
	}
	t.cost(p.d, before, after)
}
