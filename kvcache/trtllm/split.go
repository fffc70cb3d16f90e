package trtllm

import (
	"bytes"
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

const (
	// maxDepth is far more than events have, and bounds what an answer can cost.
	maxDepth = 32
	// epochKey is the member that tells the events of two processes apart.
	epochKey = `{"kvsteer_epoch":`
)

// event is one element of an answer, not decoded beyond its place.
type event struct {
	id   uint64
	rank int    // -1 if it names none
	raw  []byte // a JSON object; shares the answer's memory
}

// end is how an answer ended.
type end uint8

const (
	endNoList   end = iota // it is no list at all
	endCutOff              // a list that is not complete
	endComplete            // a list
)

// split calls fn for each event of an answer, as far as it goes: the events of an
// answer that was cut off are as good as any, and nobody gets them again. bad
// counts elements that are not numbered events.
func split(body []byte, fn func(event)) (how end, bad int) {
	i := skipSpace(body, 0)
	if i >= len(body) || body[i] != '[' {
		return endNoList, 0
	}
	i = skipSpace(body, i+1)
	if i < len(body) && body[i] == ']' {
		return endComplete, 0
	}
	for {
		from := i
		i = elementEnd(body, i)
		if i == from || i >= len(body) {
			return endCutOff, bad
		}
		next := skipSpace(body, i)
		if next >= len(body) || (body[next] != ',' && body[next] != ']') {
			return endCutOff, bad
		}
		if ev, ok := number(body[from:i:i]); ok {
			fn(ev)
		} else {
			bad++
		}
		if body[next] == ']' {
			return endComplete, bad
		}
		i = skipSpace(body, next+1)
	}
}

// number finds an event's id and rank.
func number(raw []byte) (event, bool) {
	v, err := jsonscan.ParseValue(raw, maxDepth)
	if err != nil || v.Kind() != jsonscan.KindObject {
		return event{}, false
	}
	ev := event{rank: -1, raw: raw}
	numbered := false
	for it := v.Iter(); it.Next(); {
		switch string(it.Key()) {
		case "event_id":
			// No float: numbers are 64 bits wide.
			ev.id, err = strconv.ParseUint(string(it.Value().Raw()), 10, 64)
			if err != nil {
				return event{}, false
			}
			numbered = true
		case "attention_dp_rank":
			if !it.Value().Exists() {
				continue
			}
			rank, ok := it.Value().Int()
			if !ok || rank < 0 || rank >= maxRanks {
				return event{}, false
			}
			ev.rank = int(rank)
		default:
		}
	}
	return ev, numbered
}

// payload returns a copy of an event's object with the epoch as first member.
func payload(raw []byte, epoch int64) []byte {
	const digits = 20
	p := make([]byte, 0, len(raw)+len(epochKey)+digits)
	p = append(p, epochKey...)
	p = strconv.AppendInt(p, epoch, 10)
	p = append(p, ',') // a numbered event has a member, so one follows
	return append(p, raw[1:]...)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// elementEnd returns the index after the element at i, len(b) if it does not end.
// What lies between is checked by others.
func elementEnd(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = stringEnd(b, i); i >= len(b) {
				return len(b)
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth < 0 {
				return i // the end of a list whose last element was a bare word
			}
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
		default:
		}
	}
	return len(b)
}

// stringEnd returns the index of the quote that ends the string at i, len(b) if
// there is none.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexAny(b[i:], `"\`)
		if n < 0 {
			return len(b)
		}
		i += n
		if b[i] == '"' {
			return i
		}
		i++ // what is escaped
	}
	return len(b)
}
