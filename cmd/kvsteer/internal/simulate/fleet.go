package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/sim"
)

// WorkerSpec describes equal workers. Zero fields take the defaults.
type WorkerSpec struct {
	// Count is how many; 0 means 1.
	Count int `yaml:"count"`
	// Class names the hardware; the predictor learns per class. "" is a class too.
	Class string `yaml:"class"`
	// PrefillRate is the prompt tokens a second that the engine computes, the costs
	// of each step and of attention apart. It scales the whole of
	// sim.DefaultTiming: twice the rate is twice as fast in everything. 0 means the
	// rate of that: an L40S with a 27B model in FP8.
	PrefillRate float64 `yaml:"prefill_rate"`
	// Speed is how many times as fast as the class's figures say; 0 means 1.
	Speed float64 `yaml:"speed"`
	// CacheTokens is the KV cache's size; 0 means 196,608.
	CacheTokens int `yaml:"cache_tokens"`
	// BlockSize is in tokens; 0 means 16. All workers of a fleet have the same.
	BlockSize int `yaml:"block_size"`
	// TokenBudget is the most tokens of a step; 0 means 2,048.
	TokenBudget int `yaml:"token_budget"`
	// MaxRunning is the most requests in a batch; 0 means 256.
	MaxRunning int `yaml:"max_running"`
	// Role is "prefill" for workers that compute prompts for others, "decode" for
	// those that can go on from there, "" for those that serve whole requests.
	Role fleet.Role `yaml:"role"`
	// Outages are when it crashes, each after the one before has ended.
	Outages []Outage `yaml:"outages"`
}

// Outage is a crash: what is there fails, and the cache is lost.
type Outage struct {
	// At is when it begins, For how long nobody answers; 0 is for good.
	At  time.Duration `yaml:"at"`
	For time.Duration `yaml:"for"`
}

// Fleet is what a description file says.
type Fleet struct {
	Workers []WorkerSpec `yaml:"workers"`
	// TransferRate is [Config.TransferRate].
	TransferRate float64 `yaml:"transfer_rate"`
}

// Split reports whether some workers compute prompts for others.
func Split(specs []WorkerSpec) bool {
	return slices.ContainsFunc(specs, func(s WorkerSpec) bool { return s.Role == fleet.RolePrefill })
}

// Fails reports whether some workers crash.
func Fails(specs []WorkerSpec) bool {
	return slices.ContainsFunc(specs, func(s WorkerSpec) bool { return len(s.Outages) > 0 })
}

// maxWorkers bounds a fleet: each worker has a cache of its own to simulate.
const maxWorkers = 4096

// ReadFleet reads a YAML list of workers under the key workers, and transfer_rate.
func ReadFleet(r io.Reader) (*Fleet, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading the fleet: %w", err)
	}
	doc := new(Fleet)
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(doc); err != nil {
		return nil, fmt.Errorf("reading the fleet: %w", err)
	}
	return doc, nil
}

// expand returns one spec per worker with the defaults filled in.
func expand(specs []WorkerSpec) ([]WorkerSpec, error) {
	var all []WorkerSpec
	for _, s := range specs {
		if s.Count < 0 || s.PrefillRate < 0 || s.Speed < 0 || s.CacheTokens < 0 || s.BlockSize < 0 ||
			s.TokenBudget < 0 || s.MaxRunning < 0 || math.IsNaN(s.PrefillRate+s.Speed) || math.IsInf(s.PrefillRate+s.Speed, 0) {
			return nil, errors.New("a worker's figures can't be negative")
		}
		if err := s.checkOutages(); err != nil {
			return nil, err
		}
		if s.BlockSize == 0 {
			s.BlockSize = sim.DefaultBlockSize
		}
		if s.CacheTokens == 0 {
			s.CacheTokens = sim.DefaultBlocks * sim.DefaultBlockSize
		}
		if s.TokenBudget == 0 {
			s.TokenBudget = sim.DefaultTokenBudget
		}
		if s.Speed == 0 {
			s.Speed = 1
		}
		n := max(s.Count, 1)
		if n > maxWorkers-len(all) {
			return nil, fmt.Errorf("more than %d workers", maxWorkers)
		}
		s.Count = 1
		for range n {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the fleet has no workers")
	}
	answers := false
	for _, s := range all {
		if s.BlockSize != all[0].BlockSize {
			return nil, errors.New("all workers must have the same block size")
		}
		switch s.Role {
		case fleet.RoleWhole, fleet.RoleDecode:
			answers = true
		case fleet.RolePrefill:
		default:
			return nil, fmt.Errorf("a worker's role is %q or %q or not given, not %q", fleet.RolePrefill, fleet.RoleDecode, s.Role)
		}
	}
	if !answers {
		return nil, errors.New("all workers only compute prompts: some must decode")
	}
	return all, nil
}

// checkOutages reports outages that are out of order.
func (s *WorkerSpec) checkOutages() error {
	var up time.Duration
	for i, o := range s.Outages {
		if o.At < up || o.For < 0 || o.For == 0 && i+1 < len(s.Outages) {
			return errors.New("a worker's outages must follow each other")
		}
		up = o.At + o.For
	}
	return nil
}

// timing is the cost of the worker's steps.
func (s *WorkerSpec) timing() sim.Timing {
	t := sim.DefaultTiming()
	if s.PrefillRate > 0 {
		t = t.Scale(1 / s.PrefillRate / t.PrefillToken)
	}
	return t.Scale(1 / s.Speed)
}

func (s *WorkerSpec) engine(events bool) (*sim.Engine, error) {
	return sim.New(sim.Config{
		BlockSize: s.BlockSize, Blocks: max(s.CacheTokens/s.BlockSize, 1), TokenBudget: s.TokenBudget,
		MaxRunning: s.MaxRunning, Timing: s.timing(), NoEvents: !events, NoPrefixCache: !events,
	})
}
