package local

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// Templates that take strings get placeholders before a message's text, unless the
// text says where they go or the engine was told to leave them where they are.
func TestShown(t *testing.T) {
	t.Parallel()
	const (
		pic  = "<|vision_start|><|image_pad|><|vision_end|>"
		film = "<|vision_start|><|video_pad|><|vision_end|>"
	)
	say := func(s string) part { return part{text: s} }
	look, see := part{medium: image}, part{medium: video}
	for name, c := range map[string]struct {
		parts         []part
		between       bool
		want, refused string
	}{
		"alone":            {parts: []part{look}, want: pic},
		"before the text":  {parts: []part{say("a"), look, say("b")}, want: pic + "\na\nb"},
		"two":              {parts: []part{look, say("a"), look}, want: pic + "\n" + pic + "\na"},
		"by first":         {parts: []part{see, look, see, say("a")}, want: film + "\n" + film + "\n" + pic + "\na"},
		"empty text":       {parts: []part{say(""), look, say("a"), say("")}, want: pic + "\na"},
		"placed":           {parts: []part{say("x " + pic + " y"), look}, want: "x " + pic + " y"},
		"one of two":       {parts: []part{say("x " + pic), look, look}, want: pic + "\nx " + pic},
		"too many":         {parts: []part{say(pic + pic), look}, refused: string(errForm)},
		"none of its kind": {parts: []part{say(film), look}, want: pic + "\n" + film},
		"between":          {parts: []part{say("a"), look, say("b"), see}, between: true, want: "a\n" + pic + "\nb\n" + film},
		"between, placed":  {parts: []part{say(pic), look}, between: true, refused: string(errForm)},
		"a mark":           {parts: []part{say("<##IMAGE##>"), look}, between: true, refused: string(errForm)},
		"a mark as text":   {parts: []part{say("<##IMAGE##>"), look}, want: pic + "\n<##IMAGE##>"},
		"no such medium":   {parts: []part{{medium: audio}}, refused: string(errPlaceholder)},
	} {
		m := message{parts: c.parts}
		got, err := m.shown(qwenMedia(), c.between)
		if c.refused != "" {
			require.EqualError(t, err, c.refused, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
}

// spells is a tokenizer that knows tokens by their place.
type spells []string

func (spells) Encode(dst []uint32, _ string, _ bool) ([]uint32, error) { return dst, nil }

func (s spells) Token(id uint32) (string, bool) {
	if int(id) < len(s) {
		return s[id], true
	}
	return "", false
}

// Line feeds that a replacement may join are not counted on.
func TestSteady(t *testing.T) {
	t.Parallel()
	const a, one, two, space = 0, 1, 2, 3
	as := &assets{tokenizer: spells{a: "a", one: "\n", two: "\n\n", space: " \n"}}
	for _, c := range []struct {
		ids  []uint32
		want int
	}{
		{nil, 0},
		{[]uint32{a}, 1},
		{[]uint32{a, one}, 1},
		{[]uint32{a, two}, 1},
		{[]uint32{a, one, a}, 3},
		{[]uint32{a, one, two, a}, 1},
		{[]uint32{a, one, a, two, one}, 3},
		{[]uint32{a, space}, 2},
		{[]uint32{one}, 0},
	} {
		assert.Equal(t, c.want, as.steady(c.ids), "%v", c.ids)
	}
}

// A placeholder that the text has itself is where the engine puts the first image.
func TestBefore(t *testing.T) {
	t.Parallel()
	m := &mediaTokens{rules: qwenMedia(), ends: []uint32{7, 8, 9}}
	m.id[image], m.known[image] = 7, true
	m.id[video], m.known[video] = 8, true // 9 opens both
	for _, c := range []struct {
		ids    []uint32
		images int
		videos int
		want   int // negative: a placeholder is missing
	}{
		{[]uint32{1, 2, 9, 7, 3}, 1, 0, 2},
		{[]uint32{1, 7, 9, 7, 3}, 1, 0, 1},
		{[]uint32{1, 9, 2, 7, 3}, 1, 0, 1},
		{[]uint32{1, 2, 8, 7, 3}, 1, 1, 2},
		{[]uint32{1, 2, 7, 3}, 2, 0, -1},
		{[]uint32{1, 2, 7, 3}, 0, 1, -1},
		{[]uint32{1, 2, 3}, 1, 0, -1},
	} {
		got, err := m.before(c.ids, &[numMedia]int{image: c.images, video: c.videos})
		if c.want < 0 {
			require.ErrorIs(t, err, errPlaceholder, "%v", c.ids)
			continue
		}
		require.NoError(t, err, "%v", c.ids)
		assert.Equal(t, c.want, got, "%v", c.ids)
	}
}

// Parts that templates see are those of the engine, their fields in its order.
func TestMediaParts(t *testing.T) {
	t.Parallel()
	o, err := jsonscan.Parse([]byte(`{"messages":[{"role":"tool","content":[
		{"cache_control":1,"type":"image_url","detail":"x","image_url":{"url":"u"}},{"type":"text","text":"a"}]}]}`), 0)
	require.NoError(t, err)
	q, err := (&assets{}).query(prompt.Chat, o)
	require.NoError(t, err)
	items, some := q.media()
	assert.True(t, some)
	assert.Equal(t, [numMedia]int{image: 1}, items)
	list, err := conversation(q.messages, &chatTemplate{parts: true})
	require.NoError(t, err)
	text, err := jinja.AppendJSON(nil, list)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"role":"tool","content":[{"type":"image","cache_control":1,"detail":"x"},{"type":"text","text":"a"}]}]`, string(text))
}
