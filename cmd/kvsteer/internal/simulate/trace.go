package simulate

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// TraceBlock is how many tokens a hash id of a trace stands for (Mooncake's).
const TraceBlock = 512

// traceLine is one request of a trace in Mooncake's format.
type traceLine struct {
	Timestamp float64  `json:"timestamp"` // milliseconds
	Input     int      `json:"input_length"`
	Output    int      `json:"output_length"`
	Hashes    []uint64 `json:"hash_ids"`
}

const (
	maxTraceLine   = 16 << 20
	maxTraceTokens = 1 << 27
)

// ReadTrace reads JSON lines with the fields timestamp (ms), input_length,
// output_length and hash_ids, one id for each 512 tokens of the prompt. The
// block size must divide 512 or be a multiple of it. limit bounds the calls
// read; 0 means all.
//
// A trace doesn't say which session a call belongs to. Its second hash stands
// for it: the first is a system prompt that most share.
func ReadTrace(r io.Reader, blockSize, limit int) ([]*Call, error) {
	if blockSize < 1 || TraceBlock%blockSize != 0 && blockSize%TraceBlock != 0 {
		return nil, fmt.Errorf("a block size of %d tokens doesn't go with a trace's %d", blockSize, TraceBlock)
	}
	var calls []*Call
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxTraceLine)
	for n := 1; in.Scan() && (limit < 1 || len(calls) < limit); n++ {
		if len(in.Bytes()) == 0 {
			continue
		}
		var line traceLine
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if line.Input < 1 || line.Output < 0 || line.Input > maxTraceTokens || line.Output > maxTraceTokens || line.Timestamp < 0 {
			return nil, fmt.Errorf("line %d: input_length must be at least 1, output_length and timestamp at least 0", n)
		}
		calls = append(calls, line.call(blockSize))
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("reading the trace: %w", err)
	}
	if len(calls) == 0 {
		return nil, errors.New("the trace is empty")
	}
	slices.SortStableFunc(calls, func(a, b *Call) int { return cmp.Compare(a.At, b.At) })
	return calls, nil
}

func (l *traceLine) call(blockSize int) *Call {
	c := &Call{
		At:     time.Duration(l.Timestamp * float64(time.Millisecond)),
		Prompt: l.Input, Output: max(l.Output, 1),
	}
	last := min(1, len(l.Hashes)-1)
	if last >= 0 {
		c.Session = chain(kindTrace, l.Hashes[last])
	}
	parent := uint64(0)
	for i := 0; (i+1)*blockSize <= l.Input; i++ {
		// The ids that the block overlaps; a full block lies within full or partly
		// filled ones, and an id that is missing stands for nothing shared.
		for t := i * blockSize; t < (i+1)*blockSize; t += min(blockSize, TraceBlock) {
			if t/TraceBlock >= len(l.Hashes) {
				return c
			}
			parent = chain(parent, chain(l.Hashes[t/TraceBlock], uint64(t%TraceBlock)))
		}
		c.Blocks = append(c.Blocks, parent)
	}
	return c
}

// Trace is the workload of calls read by [ReadTrace].
func Trace(name string, calls []*Call) *Workload {
	i := 0
	w := &Workload{Name: name, SLO: sloShared, Turns: 1, Trace: true, Session: func() []*Call {
		if i == len(calls) {
			return nil
		}
		i++
		return calls[i-1 : i : i]
	}}
	if len(calls) > 0 {
		w.Last = calls[len(calls)-1].At
	}
	return w
}
