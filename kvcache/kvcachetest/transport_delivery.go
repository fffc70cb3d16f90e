package kvcachetest

import (
	"encoding/binary"
	"math"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

func deliveryCases() []transportCase {
	return []transportCase{
		{"Order", testOrder},
		{"SeqRange", testSeqRange},
		{"TopicFilter", testTopicFilter},
		{"EmptyTopic", testEmptyTopic},
		{"PaddedTopic", testPaddedTopic},
		{"ExtraFrames", testExtraFrames},
		{"Malformed", testMalformed},
		{"Hostile", testHostile},
		{"Ownership", testOwnership},
		{"TwoConns", testTwoConns},
	}
}

// testOrder: everything arrives, in order.
func testOrder(b *bench) {
	const last = 1999
	p := b.publisher(zmtp.PublisherConfig{})
	c := b.subscribed(p, p.Endpoint())
	b.sendRange(p, 0, last)
	b.wantUpTo(c, last)
}

// testSeqRange: sequence numbers are 64 bits wide and unsigned.
func testSeqRange(b *bench) {
	p := b.publisher(zmtp.PublisherConfig{})
	c := b.subscribed(p, p.Endpoint())
	for _, seq := range []uint64{0, 255, 256, math.MaxUint32, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 1, 0} {
		b.send(p, message("kv", seq))
		b.want(b.recv(c), message("kv", seq))
	}
}

// testTopicFilter: a topic is a prefix, and the rest stays away.
func testTopicFilter(b *bench) {
	p := b.publisher(zmtp.PublisherConfig{})
	ep := p.Endpoint()
	ep.Topic = "kv@a"
	c := b.subscribed(p, ep)
	for i, topic := range []string{"", "kv", "kv@", "kv@b", "KV@a", "xkv@a"} {
		b.send(p, message(topic, uint64(i)))
	}
	for _, topic := range []string{"kv@a", "kv@ab@model"} {
		b.send(p, message(topic, 100))
		b.want(b.recv(c), message(topic, 100))
	}
}

// testEmptyTopic: the empty topic takes everything, the empty topic included.
func testEmptyTopic(b *bench) {
	p := b.publisher(zmtp.PublisherConfig{})
	c := b.subscribed(p, p.Endpoint())
	for _, topic := range []string{"", "kv@10.0.0.7:8000@org/model", "x"} {
		b.send(p, message(topic, 1))
		b.want(b.recv(c), message(topic, 1))
	}
}

// testPaddedTopic: a topic ends at its first NUL.
func testPaddedTopic(b *bench) {
	p := b.publisher(zmtp.PublisherConfig{})
	c := b.subscribed(p, p.Endpoint())
	b.frames(p, []byte("kv\x00\x00junk"), seqFrame(1), message("", 1).Payload)
	b.want(b.recv(c), message("kv", 1))
}

// testExtraFrames: the last two frames count, whatever stands between them and
// the topic.
func testExtraFrames(b *bench) {
	p := b.publisher(zmtp.PublisherConfig{})
	c := b.subscribed(p, p.Endpoint())
	b.frames(p, []byte("kv"), []byte("v2"), seqFrame(99), seqFrame(7), message("", 7).Payload)
	b.want(b.recv(c), message("kv", 7))
}

// testMalformed: what isn't a message is skipped, and the stream lives on.
func testMalformed(b *bench) {
	p := b.publisher(zmtp.PublisherConfig{})
	c := b.subscribed(p, p.Endpoint())
	payload := []byte("payload")
	for i, frames := range [][][]byte{
		{[]byte("kv")},
		{{}},
		{[]byte("kv"), payload},
		{seqFrame(1), payload},
		{[]byte("kv"), seqFrame(1)[1:], payload},
		{[]byte("kv"), append(seqFrame(1), 0), payload},
		{[]byte("kv"), {}, payload},
		{[]byte("kv"), payload, {}},
	} {
		seq := uint64(i)
		b.frames(p, frames...)
		b.send(p, message("kv", seq))
		b.want(b.recv(c), message("kv", seq))
	}
}

// testOwnership: a payload belongs to its receiver for good.
func testOwnership(b *bench) {
	const last = 49
	p := b.publisher(zmtp.PublisherConfig{})
	c := b.subscribed(p, p.Endpoint())
	b.sendRange(p, 0, last)
	var kept []follow.Message
	for range last + 1 {
		kept = append(kept, b.recv(c))
	}
	for i, m := range kept {
		b.want(m, message("kv", uint64(i)))
		clear(m.Payload[:cap(m.Payload)])
	}
}

// testTwoConns: connections of one transport are independent.
func testTwoConns(b *bench) {
	p := b.publisher(zmtp.PublisherConfig{})
	one := b.subscribed(p, p.Endpoint())
	two := b.dial(p.Endpoint())
	b.settle(p, two, "")
	b.close(one)
	b.sendRange(p, 0, 9)
	b.wantUpTo(two, 9)
}

func seqFrame(seq uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, seq)
}
