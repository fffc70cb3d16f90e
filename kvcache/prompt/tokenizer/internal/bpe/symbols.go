package bpe

import "unicode/utf8"

// A start says how a character begins its way: as which symbols.
type start struct {
	kind startKind
	id   uint32
}

type startKind uint8

const (
	startHit        startKind = iota + 1 // the character is token id
	startBytes                           // its bytes are tokens
	startUnk                             // it is unknown
	startUnkMissing                      // it is unknown, and so is the unknown token
	startDrop                            // it is unknown, and there is no unknown token
)

// starts knows the first symbol of every character, or byte.
type starts struct {
	bytes [256]start
	// pages hold id+1 of characters that are tokens, 0 for others.
	pages [(utf8.MaxRune >> pageBits) + 1]*[1 << pageBits]uint32
	blank [1 << pageBits]uint32
}

const pageBits = 8

func newStarts(m *Model) *starts {
	s := &starts{}
	for i := range s.pages {
		s.pages[i] = &s.blank
	}
	if m.affixed() {
		return s
	}
	if m.alphabet != nil {
		for b, r := range m.alphabet {
			s.bytes[b] = m.startOf(string(r))
		}
		return s
	}
	for token, id := range m.vocab {
		r, size := utf8.DecodeRuneInString(token)
		if size == 0 || size != len(token) {
			continue
		}
		p := &s.pages[r>>pageBits]
		if *p == &s.blank {
			*p = new([1 << pageBits]uint32)
		}
		(*p)[r&(1<<pageBits-1)] = id + 1
	}
	return s
}

// char returns id+1 of a character that is a token, else 0.
func (s *starts) char(r rune) uint32 { return s.pages[r>>pageBits][r&(1<<pageBits-1)] }

// startOf decides what becomes of a character, given with its affixes.
func (m *Model) startOf(char string) start {
	if id, ok := m.vocab[char]; ok {
		return start{kind: startHit, id: id}
	}
	if m.fallback != nil {
		all := true
		for i := range len(char) {
			all = all && m.fallbackHas[char[i]]
		}
		if all {
			return start{kind: startBytes}
		}
	}
	return m.unk
}

// A speller collects the symbols of a word. Unknown characters wait until a known one
// comes: bytes of a character that falls back overtake them, as in the Rust code.
type speller struct {
	m       *Model
	syms    []uint32
	waiting bool
}

func (p *speller) hit(id uint32) {
	p.flush()
	p.syms = append(p.syms, id)
}

func (p *speller) flush() {
	if p.waiting {
		p.syms = append(p.syms, p.m.unk.id)
		p.waiting = false
	}
}

func (p *speller) add(st start, char string) {
	switch st.kind {
	case startHit:
		p.hit(st.id)
	case startBytes:
		for i := range len(char) {
			p.syms = append(p.syms, p.m.fallback[char[i]])
		}
	case startUnk:
		if !p.m.fuseUnk {
			p.flush()
		}
		p.waiting = true
	case startUnkMissing, startDrop:
	}
}

func (m *Model) byteSymbols(word []byte, s *Scratch) {
	p := speller{m: m, syms: s.syms[:0]}
	for _, b := range word {
		if st := &m.starts.bytes[b]; st.kind == startHit {
			p.hit(st.id)
		} else {
			p.add(*st, string(m.alphabet[b]))
		}
	}
	p.flush()
	s.syms = p.syms
}

func (m *Model) charSymbols(word []byte, s *Scratch) {
	p := speller{m: m, syms: s.syms[:0]}
	for i := 0; i < len(word); {
		r, size := utf8.DecodeRune(word[i:])
		if id := m.starts.char(r); id != 0 {
			p.hit(id - 1)
		} else {
			char := string(word[i : i+size])
			p.add(m.startOf(char), char)
		}
		i += size
	}
	p.flush()
	s.syms = p.syms
}

// affixedSymbols spells a word whose characters carry a prefix or suffix.
func (m *Model) affixedSymbols(word []byte, s *Scratch) {
	p := speller{m: m, syms: s.syms[:0]}
	if m.alphabet != nil {
		s.text = s.text[:0]
		for _, b := range word {
			s.text = utf8.AppendRune(s.text, m.alphabet[b])
		}
		word = s.text
	}
	for i := 0; i < len(word); {
		_, size := utf8.DecodeRune(word[i:])
		char := string(word[i : i+size])
		if i > 0 {
			char = m.prefix + char
		}
		if i += size; i == len(word) {
			char += m.suffix
		}
		p.add(m.startOf(char), char)
	}
	p.flush()
	s.syms = p.syms
}
