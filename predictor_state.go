package kvsteer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"

	"github.com/kvsteer/kvsteer/internal/predict"
)

// The layout of a saved state: the magic, the version, the number of groups, the
// groups, and a CRC-32C of everything before it. Numbers are little-endian, a
// string is its length in 16 bits and its bytes, and a group is its model and
// class, then the values below, then its workers with their biases.
const (
	stateMagic = "KVSP"
	// stateVersion 2 has how wide percentiles are, in all.
	stateVersion = 2
	// maxState bounds what is read: the greatest state of the bounds of a
	// predictor, in bytes, with names as long as they come in practice.
	maxState = 64 << 20
	// maxStateName bounds a name in a state; what has a longer one isn't saved.
	maxStateName = 1<<16 - 1
	crcSize      = 4
	wordSize     = 8
)

// ErrPredictorState is wrapped by the error for a saved predictor state that
// can't be used: cut short, altered, or of another version. The predictor is then
// as it was; go on without the state.
var ErrPredictorState = errors.New("kvsteer: unusable predictor state")

func badState(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrPredictorState}, args...)...)
}

// groupValues is the number of values of a group.
func groupValues(g *group) int {
	return g.ttft.StateLen() + g.itl.StateLen() + predict.CalibrationStateLen + 1
}

// MarshalBinary saves what was learned. It is safe for concurrent use; each group
// is saved as it is at one moment. Equal predictors give equal bytes.
func (p *learner) MarshalBinary() ([]byte, error) {
	groups := *p.published.Load()
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.class, b.class))
	})
	keys = slices.DeleteFunc(keys, func(k groupKey) bool {
		return max(len(k.model), len(k.class)) > maxStateName
	})
	b := append([]byte(stateMagic), stateVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(keys)))
	for _, k := range keys {
		b = appendName(appendName(b, k.model), k.class)
		b = groups[k].appendState(b)
	}
	if len(b)+crcSize > maxState {
		return nil, fmt.Errorf("kvsteer: the predictor's state exceeds %d bytes: names are too long", maxState)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))), nil
}

func appendName(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

func (g *group) appendState(b []byte) []byte {
	g.mu.Lock()
	values := make([]float64, 0, groupValues(g))
	values = g.ttft.AppendState(values)
	values = g.itl.AppendState(values)
	values = g.calibration.AppendState(values)
	values = append(values, g.output)
	logs := map[string]float64{}
	g.biases.Range(func(name, v any) bool {
		if s := name.(string); len(s) <= maxStateName { //nolint:forcetypeassert // the map holds nothing else
			logs[s] = math.Float64frombits(v.(*bias).bits.Load()) //nolint:forcetypeassert // as above
		}
		return true
	})
	g.mu.Unlock()
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(logs)))
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		b = binary.LittleEndian.AppendUint64(appendName(b, name), math.Float64bits(logs[name]))
	}
	return b
}

// UnmarshalBinary replaces what was learned by what MarshalBinary saved. An error
// wraps [ErrPredictorState]. It is safe for concurrent use; observations that come
// in meanwhile may be lost.
func (p *learner) UnmarshalBinary(data []byte) error {
	if len(data) > maxState {
		return badState("%d bytes are too many", len(data))
	}
	if len(data) < len(stateMagic)+1+crcSize || string(data[:len(stateMagic)]) != stateMagic {
		return badState("it is no predictor state")
	}
	if v := data[len(stateMagic)]; v != stateVersion {
		return badState("version %d, not %d", v, stateVersion)
	}
	body, sum := data[:len(data)-crcSize], binary.LittleEndian.Uint32(data[len(data)-crcSize:])
	if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != sum {
		return badState("the checksum doesn't match")
	}
	r := stateReader{rest: body[len(stateMagic)+1:]}
	groups := map[groupKey]*group{}
	workers := 0
	for range r.count(maxGroups) {
		key := groupKey{model: r.name(), class: r.name()}
		g := newGroup(&p.opts)
		workers += g.readState(&r)
		if r.failed || groups[key] != nil || workers > maxWorkers {
			return badState("group %d is malformed", len(groups)+1)
		}
		groups[key] = g
	}
	if r.failed || len(r.rest) > 0 {
		return badState("its parts don't add up")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups {
		g.gone.Store(true)
	}
	p.groups = groups
	p.workers.Store(int64(workers))
	p.publish()
	return nil
}

// readState fills a new group and returns its number of workers.
func (g *group) readState(r *stateReader) int {
	fit := r.values(g.ttft.StateLen())
	pace := r.values(g.itl.StateLen())
	corrections := r.values(predict.CalibrationStateLen)
	output := r.values(1)
	if r.failed || g.ttft.SetState(fit) != nil || g.itl.SetState(pace) != nil ||
		g.calibration.SetState(corrections) != nil || !(output[0] > 0) || math.IsInf(output[0], 0) {
		r.failed = true
		return 0
	}
	g.output = output[0]
	n := r.count(maxWorkers)
	for range n {
		name, log := r.name(), r.values(1)
		if r.failed || !(math.Abs(log[0]) <= math.Log(maxBias)) {
			r.failed = true
			return 0
		}
		v := new(bias)
		v.bits.Store(math.Float64bits(log[0]))
		if _, twice := g.biases.LoadOrStore(name, v); twice {
			r.failed = true
			return 0
		}
	}
	g.current.Store(g.snapshot())
	return n
}

// stateReader reads the parts of a state; once failed, it returns zeros.
type stateReader struct {
	rest   []byte
	failed bool
}

func (r *stateReader) take(n int) []byte {
	if r.failed || n > len(r.rest) {
		r.failed = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *stateReader) count(most int) int {
	const size = 4
	b := r.take(size)
	if b == nil {
		return 0
	}
	n := binary.LittleEndian.Uint32(b)
	if int64(n) > int64(most) {
		r.failed = true
		return 0
	}
	return int(n)
}

func (r *stateReader) name() string {
	const size = 2
	b := r.take(size)
	if b == nil {
		return ""
	}
	return string(r.take(int(binary.LittleEndian.Uint16(b))))
}

func (r *stateReader) values(n int) []float64 {
	b := r.take(n * wordSize)
	if b == nil {
		return nil
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[i*wordSize:]))
	}
	return v
}
