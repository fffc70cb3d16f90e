package kvsteer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/internal/cputime"
)

// BenchmarkLongLine is what a request costs while as many wait as may: one that has been
// served ends, the next is given its worker, and another one joins the line.
func BenchmarkLongLine(b *testing.B) {
	for _, workers := range []int{4, 64} {
		b.Run(fmt.Sprint(workers, "-workers"), func(b *testing.B) {
			const many, tokens = 1000, 2000
			r := manyWorkers(b, workers, kvsteer.WithQueue(kvsteer.QueueOptions{MaxWait: time.Hour, Gather: -1}))
			ctx, cancel := context.WithCancel(b.Context())
			served := make(chan *kvsteer.Selection, many+workers)
			ended := make(chan struct{}, many+workers)
			rng := rand.New(rand.NewPCG(1, 1))
			seed := uint64(0)
			join := func() {
				seed++
				ids := randomTokens(seed, tokens/2+rng.IntN(tokens))
				copy(ids[:256], randomTokens(1<<32+seed%50, 256))
				go func() {
					defer func() { ended <- struct{}{} }()
					body := []byte(`{"model":"` + testModel + `","prompt":"x","stream":true}`) // nobody assumes its first token
					s, err := r.Select(ctx, &kvsteer.Request{API: kvsteer.Completions, Model: testModel, Body: body, TokenIDs: ids})
					if err == nil {
						served <- s
					}
				}()
			}
			for range many + workers {
				join()
			}
			require.Eventually(b, func() bool { return r.Waiting() == many }, time.Minute, time.Millisecond)
			cpu := cputime.Process()
			for b.Loop() {
				s := <-served
				s.Done(kvsteer.Usage{})
				<-ended
				join()
			}
			b.ReportMetric(float64((cputime.Process()-cpu).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
			cancel()
			for range many + workers {
				<-ended
			}
			for len(served) > 0 {
				(<-served).Done(kvsteer.Usage{})
			}
		})
	}
}
