package bpe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// naive is byte-pair encoding as one would explain it: again and again, the pair of least
// rank, the leftmost of equals.
func naive(merges map[[2]uint32]int, merged []uint32, syms []uint32) []uint32 {
	syms = slices.Clone(syms)
	for {
		best, at := len(merged), -1
		for i := range len(syms) - 1 {
			if r, ok := merges[[2]uint32{syms[i], syms[i+1]}]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return syms
		}
		syms[at] = merged[best]
		syms = slices.Delete(syms, at+1, at+2)
	}
}

// randomModel has n random merges over a few letters, ranked at random.
func randomModel(r *rand.Rand, letters string, n int) (Config, map[[2]uint32]int, []uint32) {
	c := Config{Vocab: map[string]uint32{}}
	var tokens []string
	add := func(s string) uint32 {
		id, ok := c.Vocab[s]
		if !ok {
			id = uint32(len(c.Vocab))
			c.Vocab[s] = id
			tokens = append(tokens, s)
		}
		return id
	}
	for _, l := range letters {
		add(string(l))
	}
	for range n {
		a, b := tokens[r.IntN(len(tokens))], tokens[r.IntN(len(tokens))]
		const longest = 16
		if len(a+b) <= longest {
			c.Merges = append(c.Merges, Merge{c.Vocab[a], c.Vocab[b], add(a + b)})
		}
	}
	r.Shuffle(len(c.Merges), func(i, j int) { c.Merges[i], c.Merges[j] = c.Merges[j], c.Merges[i] })
	ranks := map[[2]uint32]int{}
	merged := make([]uint32, len(c.Merges))
	for i, g := range c.Merges {
		ranks[[2]uint32{g.A, g.B}] = i // the last of equals counts
		merged[i] = g.Merged
	}
	return c, ranks, merged
}

func TestAllWaysOfMergingAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		letters := "abcdefgh"[:2+r.IntN(6)]
		c, ranks, merged := randomModel(r, letters, r.IntN(300))
		m, err := New(c)
		require.NoError(t, err)
		for range 20 {
			syms := make([]uint32, 1+r.IntN(1<<r.IntN(10)))
			for i := range syms {
				syms[i] = uint32(r.IntN(len(letters)))
			}
			want := naive(ranks, merged, syms)
			for way, run := range map[string]func(s *Scratch) []uint32{
				"scan":  func(s *Scratch) []uint32 { return m.scan(s.syms, s.merge) },
				"heap":  func(s *Scratch) []uint32 { m.link(s); m.queue(s); return m.left(nil, s) },
				"sweep": func(s *Scratch) []uint32 { m.link(s); m.sweep(s); return m.left(nil, s) },
			} {
				s := &Scratch{syms: slices.Clone(syms)}
				m.look(s)
				require.Equal(t, want, run(s), "round %d, %s", round, way)
			}
		}
	}
}

func TestCuttingChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	cut := 0
	for range 40 {
		c, ranks, merged := randomModel(r, "abcdefghé▁", 10+r.IntN(60))
		c.CacheBytes = 1 << 14
		m, err := New(c)
		require.NoError(t, err)
		var s Scratch
		for range 20 {
			var word strings.Builder
			var syms []uint32
			for range 30 + r.IntN(60) {
				l := []rune("abcdefghé▁")[r.IntN(10)]
				word.WriteRune(l)
				syms = append(syms, c.Vocab[string(l)])
			}
			want := naive(ranks, merged, syms)
			require.Equal(t, want, m.Append(nil, []byte(word.String()), &s))
			for i := range len(syms) - 1 {
				if !m.cuts.joined(syms[i]+1, syms[i+1]+1) {
					cut++
				}
			}
		}
	}
	require.Greater(t, cut, 1000, "words are cut at all")
}

func TestUnknownCharacters(t *testing.T) {
	base := func() Config {
		v := map[string]uint32{"<unk>": 0, "a": 1, "b": 2, "ab": 3, "<unk>a": 4}
		for b := range 256 {
			v[fmt.Sprintf("<0x%02X>", b)] = uint32(100 + b)
		}
		return Config{Vocab: v, Merges: []Merge{{1, 2, 3}}, Unk: "<unk>"}
	}
	for _, c := range []struct {
		name   string
		change func(c *Config)
		word   string
		want   []uint32
	}{
		{"each", func(*Config) {}, "axyb", []uint32{1, 0, 0, 2}},
		{"fused", func(c *Config) { c.FuseUnk = true }, "xyabxy", []uint32{0, 3, 0}},
		{"dropped", func(c *Config) { c.Unk = "" }, "axyb", []uint32{3}},
		{"merged", func(c *Config) { c.Merges = append(c.Merges, Merge{0, 1, 4}) }, "xa", []uint32{4}},
		{"bytes", func(c *Config) { c.ByteFallback = true }, "aéb", []uint32{1, 100 + 0xC3, 100 + 0xA9, 2}},
		{"bytes overtake", func(c *Config) {
			c.ByteFallback, c.FuseUnk = true, true
			delete(c.Vocab, "<0xC3>")
		}, "éxa", []uint32{100 + 'x', 0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := base()
			c.change(&config)
			m, err := New(config)
			require.NoError(t, err)
			require.Equal(t, c.want, m.Append(nil, []byte(c.word), &Scratch{}))
		})
	}
}

func TestAnUnknownTokenMustExist(t *testing.T) {
	_, err := New(Config{Vocab: map[string]uint32{"a": 0}, Unk: "<unk>"})
	require.ErrorIs(t, err, ErrModel)
	// With every byte known nothing is ever unknown.
	c := Config{Vocab: map[string]uint32{}, Unk: "<unk>", ByteLevel: true}
	for i, r := range Alphabet() {
		c.Vocab[string(r)] = uint32(i)
	}
	m, err := New(c)
	require.NoError(t, err)
	require.Equal(t, []uint32{0xFF, ' '}, m.Append(nil, []byte("\xff "), &Scratch{}))
	delete(c.Vocab, "a")
	_, err = New(c)
	require.ErrorIs(t, err, ErrModel)
}

func TestWordCache(t *testing.T) {
	require.Nil(t, newCache(0))
	c := newCache(1 << 14)
	require.LessOrEqual(t, len(c.slots)*entrySize, 1<<14)
	_, hash, hit := c.get(nil, []byte("word"), 0)
	require.False(t, hit)
	c.put(hash, []byte("word"), []uint32{1, 2}, 0)
	_, _, hit = c.get(nil, []byte("word"), 0)
	require.False(t, hit, "seen once: not worth storing")
	c.put(hash, []byte("word"), []uint32{1, 2}, 0)
	ids, _, hit := c.get([]uint32{9}, []byte("word"), 0)
	require.True(t, hit)
	require.Equal(t, []uint32{9, 1, 2}, ids)
	_, _, hit = c.get(nil, []byte("word"), isPiece)
	require.False(t, hit)
	require.False(t, c.takes(make([]byte, maxWord+1)))
	// Another word in the same slots doesn't get its ids.
	for i := range c.slots {
		if e := c.slots[i].Load(); e != nil {
			c.slots[i].Store(&entry{[]byte("other"), e.ids, 0})
		}
	}
	_, _, hit = c.get(nil, []byte("word"), 0)
	require.False(t, hit)
}

func TestNoAllocations(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	c, _, _ := randomModel(r, "abcdefgh", 200)
	m, err := New(c)
	require.NoError(t, err)
	var s Scratch
	for _, n := range []int{3, 40, 500, 5000} {
		word := make([]byte, n)
		for i := range word {
			word[i] = "abcdefgh"[r.IntN(8)]
		}
		dst := m.Append(nil, word, &s)
		require.Zero(t, testing.AllocsPerRun(10, func() { dst = m.Append(dst[:0], word, &s) }), "word of %d", n)
	}
}
