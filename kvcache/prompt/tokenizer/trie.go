package tokenizer

import (
	"bytes"
	"strings"
)

// noToken is the value of a trie node at which no token ends.
const noToken = -1

// trie finds the longest of several strings at a place.
type trie struct {
	nodes  []trieNode
	begins [256]bool // bytes that some string begins with
	only   int       // that byte if there is only one, plus one
}

type trieNode struct {
	keys  []byte
	kids  []int32
	value int32
}

// put adds a string; false if it is there already.
func (t *trie) put(s []byte, value int32) bool {
	if !t.begins[s[0]] {
		t.begins[s[0]] = true
		t.only = int(s[0]) + 1
		if len(t.nodes[0].keys) > 0 {
			t.only = 0
		}
	}
	at := int32(0)
	for _, c := range s {
		next := t.nodes[at].kid(c)
		if next < 0 {
			next = int32(len(t.nodes))
			t.nodes = append(t.nodes, trieNode{value: noToken})
			n := &t.nodes[at]
			n.keys = append(n.keys, c)
			n.kids = append(n.kids, next)
		}
		at = next
	}
	if t.nodes[at].value != noToken {
		return false
	}
	t.nodes[at].value = value
	return true
}

func (n *trieNode) kid(c byte) int32 {
	if i := bytes.IndexByte(n.keys, c); i >= 0 {
		return n.kids[i]
	}
	return -1
}

// find returns the first place at or after pos where a string occurs, and the longest
// there; value is noToken if there is none.
func find[T string | []byte](t *trie, text T, pos int) (lo, hi int, value int32) {
	for pos < len(text) {
		if t.only != 0 {
			i := indexByte(text[pos:], byte(t.only-1))
			if i < 0 {
				break
			}
			pos += i
		} else {
			for !t.begins[text[pos]] {
				if pos++; pos == len(text) {
					return 0, 0, noToken
				}
			}
		}
		hi, value = 0, noToken
		at := int32(0)
		for i := pos; i < len(text); {
			if at = t.nodes[at].kid(text[i]); at < 0 {
				break
			}
			i++
			if v := t.nodes[at].value; v != noToken {
				hi, value = i, v
			}
		}
		if value != noToken {
			return pos, hi, value
		}
		pos++
	}
	return 0, 0, noToken
}

func indexByte[T string | []byte](text T, c byte) int {
	switch s := any(text).(type) {
	case string:
		return strings.IndexByte(s, c)
	case []byte:
		return bytes.IndexByte(s, c)
	}
	return -1
}
