package sim

import (
	"fmt"
	"slices"
	"testing"
)

// The events of vLLM 0.32.0 with blocks of 32 tokens and a cache of twelve, one of
// which it keeps for itself, as captured by internal/e2e/vllm: four prompts of 100
// tokens and one of 200 with two tokens of output each, then one of 40 with 40.
// pN.i is block i of prompt N; each line is one message.
func TestEventsAreThoseOfARealEngine(t *testing.T) {
	t.Parallel()
	want := []string{
		"+p1.0 p1.1 p1.2",
		"+p2.0 p2.1 p2.2",
		"+p3.0 p3.1 p3.2",
		"-p1.2 -p1.1 +p4.0 p4.1 p4.2",
		"-p1.0 -p2.2 -p2.1 -p2.0 -p3.2 -p3.1 +p5.0 p5.1 p5.2 p5.3 p5.4 p5.5",
		"-p3.0 +p6.0",
		"+p6.1",
		"-p4.2",
	}
	e := newEngine(t, Config{BlockSize: 32, Blocks: 11})
	names := map[uint64]string{}
	var got []string
	for i, request := range []struct{ prompt, output int }{{100, 2}, {100, 2}, {100, 2}, {100, 2}, {200, 2}, {40, 40}} {
		hashes := hashesFor(uint64(i+1), (request.prompt+request.output)/32)
		for b, hash := range hashes {
			names[hash] = fmt.Sprintf("p%d.%d", i+1, b)
		}
		submit(t, e, &Request{Prompt: request.prompt, Output: request.output, Hashes: hashes})
		for !e.Idle() {
			e.Step()
			if line := describe(e.TakeEvents(), names); line != "" {
				got = append(got, line)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("events\n%q\nwant\n%q", got, want)
	}
}

func describe(events []Event, names map[uint64]string) string {
	line := ""
	for _, event := range events {
		if line != "" {
			line += " "
		}
		if event.Kind == BlockStored {
			line += "+"
		} else {
			line += "-"
		}
		for i, hash := range event.Hashes {
			if i > 0 {
				line += " "
			}
			line += names[hash]
		}
	}
	return line
}
