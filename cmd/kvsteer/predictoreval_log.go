package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/record"
)

// isLog reports whether a recording is a decision log, by how it begins.
func isLog(r *bufio.Reader) bool {
	const enough = 256
	start, _ := r.Peek(enough) // a shorter recording is no log
	return bytes.HasPrefix(bytes.TrimSpace(start), []byte(`{"kvsteer_log":`))
}

// maxUnended bounds what is remembered of requests whose end is not in the log.
const maxUnended = 1 << 18

// evaluateLog takes a decision log as it was: what was predicted against what was
// measured. First attempts whose first token was seen count.
func evaluateLog(ctx context.Context, name string, r io.Reader, rep *evalReport) (*evalReport, error) {
	e := evaluation{report: rep}
	type key struct { // decisions are numbered within a run
		run string
		id  uint64
	}
	unended := map[key]pair{}
	err := record.Read(r, func(entry *record.Entry) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rep.Lines++
		switch {
		case entry.Decision != nil:
			if p, ok := predicted(entry.Decision); ok {
				if len(unended) >= maxUnended {
					clear(unended) // of failed attempts there is no end: most of these are old
				}
				unended[key{entry.Run, entry.Decision.ID}] = p
			}
		case entry.Outcome != nil:
			k := key{entry.Run, entry.Outcome.Decision}
			p, ok := unended[k]
			delete(unended, k)
			if ok && entry.Outcome.TTFT > 0 && !entry.Outcome.Moved {
				p.actual = inMS(entry.Outcome.TTFT)
				e.take(p)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e.done(name)
}

// predicted is what was expected of the worker that a first attempt went to.
func predicted(d *kvsteer.Decision) (p pair, ok bool) {
	w := d.Winner()
	if w == nil || d.Attempt != 1 {
		return pair{}, false
	}
	return pair{predicted: inMS(w.PredictedTTFT), high: inMS(w.PredictedP90)}, true
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// take counts a request, if it is not one of those that come before.
func (e *evaluation) take(p pair) {
	if e.report.WithTTFT++; e.report.WithTTFT > e.report.Warmup {
		e.ttft.rows = append(e.ttft.rows, p)
	}
}
