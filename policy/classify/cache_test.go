package classify

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCacheIsBounded(t *testing.T) {
	const bound = 1 << 20
	c := newCache(bound)
	v := verdict{findings: []Finding{{Tag: "t", Kind: "k", Count: 1, First: []Place{{1, 2}}}}}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 200_000 {
		c.add(cacheKey{digest: [2]uint64{uint64(i), uint64(i)}}, verdict{findings: append([]Finding(nil), Finding{
			Tag: "t", Kind: "k", Count: 1, First: append([]Place(nil), v.findings[0].First...),
		})})
		require.LessOrEqual(t, c.size, c.half)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(bound+bound/4), "bytes of heap in use")
	require.Greater(t, len(c.recent)+len(c.older), bound/2/(entryBytes+findingBytes+placeBytes+1)/2)
	runtime.KeepAlive(c)
}

func TestCacheKeepsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	c := newCache(100 * entryBytes)
	hot := cacheKey{digest: [2]uint64{1 << 40, 1}}
	c.add(hot, verdict{states: 5})
	for i := range uint64(1000) {
		c.add(cacheKey{digest: [2]uint64{i, i}}, verdict{})
		got, ok := c.get(hot)
		require.True(t, ok)
		require.Equal(t, uint64(5), got.states)
	}
	_, ok := c.get(cacheKey{digest: [2]uint64{3, 3}})
	require.False(t, ok, "what nobody asks for is forgotten")
	c.add(cacheKey{}, verdict{findings: make([]Finding, 1000)})
	_, ok = c.get(cacheKey{})
	require.False(t, ok, "more than there is room for")
}

func TestDigestsDiffer(t *testing.T) {
	t.Parallel()
	c := newCache(1)
	text := func(s ...string) []Part {
		var parts []Part
		for _, p := range s {
			parts = append(parts, Part{Role: "user", Text: []byte(p)})
		}
		return parts
	}
	aside := text("a", "b")
	aside[1].aside = true
	tool := text("ab")
	tool[0].Role = "tool"
	seen := map[[2]uint64]int{}
	for i, parts := range [][]Part{text("ab"), text("a", "b"), text("", "ab"), text("ab", ""), text("b", "a"), aside, tool} {
		d := c.digest(parts)
		require.Equal(t, d, c.digest(parts))
		require.NotContains(t, seen, d, fmt.Sprint(i))
		seen[d] = i
	}
	require.NotEqual(t, c.digest(text("ab")), newCache(1).digest(text("ab")), "each cache has keys of its own")
}
