package sim

import (
	"testing"
	"time"
)

// A batch of 32 decodes must cost nothing to the garbage collector.
func TestDecodeStepsDoNotAllocate(t *testing.T) {
	e := newEngine(t, Config{NoEvents: true})
	for i := range 32 {
		submit(t, e, &Request{Prompt: 1000, Output: 1 << 20 / 32, Hashes: hashesFor(uint64(i), 62)})
	}
	for range 40 {
		e.Step()
	}
	// The block lists grow now and then, amortised.
	if allocs := testing.AllocsPerRun(1000, func() { e.Step() }); allocs > 0.5 {
		t.Errorf("%.2f allocations a step", allocs)
	}
}

// BenchmarkHour runs one engine through an hour of virtual time near saturation:
// prompts of 12,000 tokens in blocks of 512, half of them cached, 300 tokens out.
func BenchmarkHour(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		e := newEngine(b, Config{BlockSize: 512, Blocks: 2000, NoEvents: true})
		var now, due time.Duration
		seed := uint64(0)
		for now < time.Hour {
			for due <= now {
				seed++
				hashes := append(hashesFor(seed%8, 12), hashesFor(1000+seed, 12)...)
				submit(b, e, &Request{Prompt: 12000, Output: 300, Hashes: hashes})
				due += 5 * time.Second
			}
			if e.Idle() {
				now = due
				continue
			}
			now += e.Step().Duration
		}
		b.ReportMetric(float64(e.Stats().Steps), "steps/op")
	}
}
