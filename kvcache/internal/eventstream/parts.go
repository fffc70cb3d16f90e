package eventstream

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

const (
	seqSize = 8
	// endSeq marks the end of a replay: -1 as the engines write it.
	endSeq = math.MaxUint64
	// minFrames is topic (or delimiter), sequence number and payload.
	minFrames = 3
)

// Parts collects a multipart message. It keeps only the frames that carry
// meaning (the first two and the last two), so that a message of a million
// frames costs no more than a message of four. The zero value is empty.
type Parts struct {
	first, second, seq, payload []byte
	n                           int
}

// Add appends a frame; Parts owns it from then on.
func (p *Parts) Add(frame []byte) {
	switch p.n {
	case 0:
		p.first = frame
	case 1:
		p.second = frame
	default:
	}
	p.seq, p.payload = p.payload, frame
	p.n++
}

// Live reads the parts as a published message: topic first, sequence number and
// payload last, whatever an engine puts between. It reports false if they are
// none.
func (p *Parts) Live() (follow.Message, bool) {
	if p.n < minFrames || len(p.seq) != seqSize {
		return follow.Message{}, false
	}
	return follow.Message{Topic: topic(p.first), Seq: binary.BigEndian.Uint64(p.seq), Payload: p.payload}, true
}

// Replayed reads the parts as a reply to a replay request, with the topic frame
// (vLLM from 0.26 on) or without it (SGLang, older vLLM), the leading delimiter
// included. end reports the end marker, ok whether the parts make sense at all.
func (p *Parts) Replayed() (m follow.Message, end, ok bool) {
	if p.n < minFrames || len(p.seq) != seqSize {
		return follow.Message{}, false, false
	}
	m = follow.Message{Seq: binary.BigEndian.Uint64(p.seq), Payload: p.payload}
	if m.Seq == endSeq || len(m.Payload) == 0 {
		return follow.Message{}, true, true
	}
	if p.n > minFrames {
		m.Topic = topic(p.second)
	}
	return m, false, true
}

// SeqFrame is a sequence number as a frame.
func SeqFrame(seq uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, seq)
}

// topic drops padding: a topic ends at its first NUL.
func topic(frame []byte) string {
	if i := bytes.IndexByte(frame, 0); i >= 0 {
		frame = frame[:i]
	}
	return string(frame)
}

// Requested reads the parts as a replay request, as engines do: exactly the
// delimiter and a sequence number. Anything else they ignore.
func (p *Parts) Requested() (from uint64, ok bool) {
	if p.n != 2 || len(p.first) != 0 || len(p.payload) != seqSize {
		return 0, false
	}
	return binary.BigEndian.Uint64(p.payload), true
}

// Subscription reads the parts as a subscription in the form of ZMTP 3.0: one
// frame, 1 (subscribe) or 0 (cancel) and the prefix. by is 1 or -1.
func (p *Parts) Subscription() (by int, prefix string, ok bool) {
	if p.n != 1 || len(p.first) == 0 || p.first[0] > 1 {
		return 0, "", false
	}
	return 2*int(p.first[0]) - 1, string(p.first[1:]), true
}
