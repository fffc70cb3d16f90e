package tokenizer

import (
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/bpe"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/rx"
)

// A span is a piece of work.text.
type span struct{ lo, hi int32 }

// work is what one Encode works with. Buffers are kept for the next one, up to a size.
type work struct {
	raw    []byte    // the text as it came
	text   []byte    // what is being tokenized, as rewritten so far
	norm   [2][]byte // buffers of normalizers
	stages [2][]byte // buffers of pre-tokenizers
	turn   int
	spans  []span
	spare  []span
	found  []found
	at     []byte // atoms of text, if fresh
	fresh  bool
	first  bool // text begins where the input begins
	rx     rx.Matcher
	bpe    bpe.Scratch
}

// found is a stretch of a piece, and whether the pattern matched it.
type found struct {
	lo, hi int32
	match  bool
}

// keepBelow bounds the buffers that wait in the pool.
const keepBelow = 1 << 20

func (t *Tokenizer) borrow() *work {
	if w, ok := t.pool.Get().(*work); ok {
		return w
	}
	return &work{}
}

func (t *Tokenizer) giveBack(w *work) {
	if cap(w.norm[0]) <= keepBelow && cap(w.at) <= keepBelow && cap(w.raw) <= keepBelow && !w.bpe.Big() {
		w.text = nil
		t.pool.Put(w)
	}
}

// atoms returns the atoms of w.text.
func (w *work) atoms(a *rx.Alphabet) []byte {
	if !w.fresh {
		w.at = a.Atoms(w.at[:0], w.text)
		w.fresh = true
	}
	return w.at
}

// rewrite starts a new text; the result of f becomes the spans' text.
func (w *work) rewrite(f func(dst, piece []byte) []byte) error {
	w.turn ^= 1
	out := w.stages[w.turn][:0]
	for i, s := range w.spans {
		lo := len(out)
		if out = f(out, w.text[s.lo:s.hi]); len(out) > maxRewritten {
			return ErrTooLong
		}
		w.spans[i] = span{int32(lo), int32(len(out))}
	}
	w.stages[w.turn] = out
	w.text = out
	w.fresh = false
	return nil
}

// maxRewritten keeps positions within 32 bits.
const maxRewritten = 1 << 30
