package kvcache

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table against a plain map of counts, with tags that crowd together: all
// different, few different, all the same.
func TestEngineTableAgainstMap(t *testing.T) {
	t.Parallel()
	for _, spread := range []uint32{1, 7, 1 << 12, 1<<32 - 1} {
		r := rand.New(rand.NewPCG(29, uint64(spread)))
		mem := &memory{max: 1 << 20}
		var table engineTable
		type entry struct{ tag, ref uint32 }
		var all []entry
		for step := range 12_000 {
			limit := 2500
			if step > 8000 {
				limit = 50
			}
			if len(all) < limit && r.IntN(5) > 1 {
				e := entry{r.Uint32N(spread), uint32(step + 1)}
				require.True(t, table.insert(mem, e.tag, e.ref))
				all = append(all, e)
			} else if len(all) > 0 {
				i := r.IntN(len(all))
				table.remove(mem, all[i].tag, all[i].ref)
				all[i] = all[len(all)-1]
				all = all[:len(all)-1]
			}
			if step%500 != 0 {
				continue
			}
			n := 0
			table.each(func(uint32) { n++ })
			require.Equal(t, len(all), n)
			for _, e := range all {
				p := table.find(e.tag)
				ref := p.next()
				for ref != 0 && ref != e.ref {
					ref = p.next()
				}
				require.Equal(t, e.ref, ref)
			}
			p := table.find(spread + 1)
			for ref := p.next(); ref != 0; ref = p.next() {
				require.Equal(t, spread+1, p.tag)
			}
		}
		table.drop(mem)
		require.Zero(t, mem.used, "spread %d", spread)
	}
}

// A table that may not grow fills up, then refuses, and loses nothing.
func TestEngineTableAtItsBudget(t *testing.T) {
	t.Parallel()
	mem := &memory{max: 40 << 10}
	var table engineTable
	n := uint32(0)
	for table.insert(mem, tagOf(EngineHash(n+1)), n+1) {
		n++
	}
	require.Greater(t, n, uint32(2000))
	require.LessOrEqual(t, mem.used, mem.max)
	for i := range n {
		p := table.find(tagOf(EngineHash(i + 1)))
		require.Equal(t, i+1, p.next())
		table.remove(mem, tagOf(EngineHash(i+1)), i+1)
	}
	table.drop(mem)
	require.Zero(t, mem.used)
}
