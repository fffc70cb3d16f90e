package eventstream

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

func parts(frames ...string) *Parts {
	var p Parts
	for _, f := range frames {
		p.Add([]byte(f))
	}
	return &p
}

const (
	seven = "\x00\x00\x00\x00\x00\x00\x00\x07"
	end   = "\xff\xff\xff\xff\xff\xff\xff\xff"
)

func TestLive(t *testing.T) {
	for _, frames := range [][]string{
		{"kv", seven, "p"},
		{"kv\x00junk", seven, "p"},
		{"kv", "more", "frames", seven, "p"},
	} {
		m, ok := parts(frames...).Live()
		require.True(t, ok, "%q", frames)
		require.Equal(t, follow.Message{Topic: "kv", Seq: 7, Payload: []byte("p")}, m)
	}
	m, ok := parts("", end, "").Live()
	require.True(t, ok, "an end marker means nothing among live messages")
	require.Equal(t, uint64(math.MaxUint64), m.Seq)
	for _, frames := range [][]string{{}, {""}, {seven, "p"}, {"kv", seven[1:], "p"}, {"kv", seven + "\x00", "p"}, {"kv", seven, "p", "p"}} {
		_, ok := parts(frames...).Live()
		require.False(t, ok, "%q", frames)
	}
}

func TestReplayed(t *testing.T) {
	for _, c := range []struct {
		frames  []string
		want    follow.Message
		end, ok bool
	}{
		{[]string{"", seven, "p"}, follow.Message{Seq: 7, Payload: []byte("p")}, false, true},
		{[]string{"", "kv", seven, "p"}, follow.Message{Topic: "kv", Seq: 7, Payload: []byte("p")}, false, true},
		{[]string{"", "kv\x00", seven, "p"}, follow.Message{Topic: "kv", Seq: 7, Payload: []byte("p")}, false, true},
		{[]string{"", end, ""}, follow.Message{}, true, true},
		{[]string{"", "", end, ""}, follow.Message{}, true, true},
		{[]string{"", "", end, "payload"}, follow.Message{}, true, true},
		{[]string{"", "", seven, ""}, follow.Message{}, true, true},
		{[]string{"", seven}, follow.Message{}, false, false},
		{[]string{"", "seq", "p"}, follow.Message{}, false, false},
		{[]string{""}, follow.Message{}, false, false},
	} {
		m, isEnd, ok := parts(c.frames...).Replayed()
		require.Equal(t, c.want, m, "%q", c.frames)
		require.Equal(t, c.end, isEnd, "%q", c.frames)
		require.Equal(t, c.ok, ok, "%q", c.frames)
	}
}

func TestReplyIsReplayed(t *testing.T) {
	for _, withTopic := range []bool{false, true} {
		want := follow.Message{Seq: 1 << 40, Payload: []byte("p")}
		if withTopic {
			want.Topic = "kv"
		}
		var p, marker Parts
		for _, f := range Reply(follow.Message{Topic: "kv", Seq: 1 << 40, Payload: []byte("p")}, withTopic) {
			p.Add(f)
		}
		got, isEnd, ok := p.Replayed()
		require.Equal(t, want, got)
		require.False(t, isEnd)
		require.True(t, ok)
		for _, f := range End(withTopic) {
			marker.Add(f)
		}
		_, isEnd, ok = marker.Replayed()
		require.True(t, isEnd && ok)
	}
}

func TestRequested(t *testing.T) {
	from, ok := parts("", seven).Requested()
	require.True(t, ok)
	require.Equal(t, uint64(7), from)
	for _, frames := range [][]string{{seven}, {"x", seven}, {"", seven[1:]}, {"", "", seven}, {}} {
		_, ok := parts(frames...).Requested()
		require.False(t, ok, "%q", frames)
	}
}

func TestSubscription(t *testing.T) {
	by, prefix, ok := parts("\x01kv").Subscription()
	require.True(t, ok && by == 1 && prefix == "kv")
	by, prefix, ok = parts("\x00kv").Subscription()
	require.True(t, ok && by == -1 && prefix == "kv")
	for _, frames := range [][]string{{}, {""}, {"\x02kv"}, {"\x01kv", ""}} {
		_, _, ok := parts(frames...).Subscription()
		require.False(t, ok, "%q", frames)
	}
}

func TestHistory(t *testing.T) {
	h := NewHistory(3)
	require.Empty(t, h.From(0))
	for seq := range uint64(5) {
		h.Add(follow.Message{Seq: seq})
	}
	require.Equal(t, []follow.Message{{Seq: 2}, {Seq: 3}, {Seq: 4}}, h.From(0))
	require.Equal(t, []follow.Message{{Seq: 4}}, h.From(4))
	require.Empty(t, h.From(5))
	require.Equal(t, DefaultHistory, NewHistory(0).max)
}
