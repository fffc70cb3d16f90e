package tokenizer

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/bpe"
	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/jsontree"
)

// modelFile is the model part of a file. Vocabulary and merges are read as a stream.
type modelFile struct {
	fields component
	object jsontree.Value // what isn't vocabulary or merges
	vocab  map[string]uint32
	tokens tokenTable
	merges []bpe.Merge
	prefix string

	late      []byte // the text of the merges, which refer to the vocabulary
	hasMerges bool
	isArray   bool // the vocabulary is a list: a Unigram model
	byteBack  bool
	ignore    bool
	fuse      bool
	unk       string
	suffix    string
}

const modelPath = "model"

func (m *modelFile) read(d *jsontree.Decoder) error {
	if !d.IsObject() {
		return malformedf(modelPath, "expected an object")
	}
	m.object.Kind = jsontree.Object
	err := d.Object(func(key []byte) error {
		name := string(key)
		if m.object.Get(name) != nil {
			return malformedf(modelPath, "field %q occurs twice", name)
		}
		value := jsontree.Value{}
		var err error
		switch {
		case name == "vocab" && d.IsObject():
			err = m.readVocab(d)
		case name == "vocab":
			m.isArray = true
			err = d.Skip()
		case name == "merges":
			m.late, err = d.Raw()
			m.hasMerges = true
		default:
			value, err = d.Value()
		}
		m.object.Members = append(m.object.Members, jsontree.Member{Key: name, Value: value})
		return err
	})
	if err != nil {
		return err
	}
	if err := m.options(); err != nil {
		return err
	}
	merges := m.late
	m.late = nil
	return m.readMerges(jsontree.NewDecoder(merges))
}

// options reads the small fields.
func (m *modelFile) options() error {
	m.fields = component{path: modelPath, value: &m.object, known: map[string]bool{"vocab": true, "merges": true}}
	c := &m.fields
	if kind := c.get("type"); kind != nil {
		if c.kind = kind.Text; kind.Kind != jsontree.String || kind.Text != "BPE" {
			c.refusef("only BPE models are known")
			return c.err
		}
	}
	if m.vocab == nil || !m.hasMerges || m.isArray {
		// Without a type, the fields say what the model is.
		c.refusef("a model without a vocabulary and merges")
		return c.err
	}
	if v := c.get("dropout"); v != nil && v.Kind != jsontree.Null {
		if p, err := strconv.ParseFloat(v.Text, 64); v.Kind != jsontree.Number || err != nil || p != 0 {
			c.refusef("dropout")
		}
	}
	m.unk = c.optionalText("unk_token")
	if v := c.get("unk_token"); m.unk == "" && v != nil && v.Kind == jsontree.String {
		c.refusef("an empty unknown token")
	}
	m.prefix = c.optionalText("continuing_subword_prefix")
	m.suffix = c.optionalText("end_of_word_suffix")
	m.fuse = c.optionalFlag("fuse_unk", false)
	m.byteBack = c.optionalFlag("byte_fallback", false)
	m.ignore = c.optionalFlag("ignore_merges", false)
	return c.done()
}

func (m *modelFile) readVocab(d *jsontree.Decoder) error {
	m.vocab = map[string]uint32{}
	highest := uint32(0)
	err := d.Object(func(key []byte) error {
		token := string(key)
		id, err := d.Uint32()
		if err != nil {
			return err
		}
		if id > maxID {
			return malformedf(modelPath+".vocab", "an id above %d", uint32(maxID))
		}
		if _, twice := m.vocab[token]; twice {
			return malformedf(modelPath+".vocab", "token %q occurs twice", token)
		}
		m.vocab[token] = id
		highest = max(highest, id)
		return nil
	})
	if err != nil {
		return err
	}
	m.tokens = newTokenTable(len(m.vocab), highest)
	for token, id := range m.vocab {
		if !m.tokens.put(id, token) {
			return malformedf(modelPath+".vocab", "two tokens have id %d", id)
		}
	}
	return nil
}

const maxID = math.MaxUint32 - 1

// readMerges reads merges as "a b" or ["a", "b"].
func (m *modelFile) readMerges(d *jsontree.Decoder) error {
	var whole []byte
	var two [2][]byte
	pairs, lines := 0, 0
	add := func(a, b []byte) error {
		ida, okA := m.vocab[string(a)]
		idb, okB := m.vocab[string(b)]
		rest := b
		if m.prefix != "" {
			var ok bool
			if rest, ok = bytes.CutPrefix(b, []byte(m.prefix)); !ok || len(rest) == 0 {
				return unsupportedf(modelPath+".merges", "merge %d doesn't continue with the prefix", len(m.merges))
			}
		}
		whole = append(append(whole[:0], a...), rest...)
		merged, okMerged := m.vocab[string(whole)]
		if !okA || !okB || !okMerged {
			return malformedf(modelPath+".merges", "merge %d isn't of tokens in the vocabulary", len(m.merges))
		}
		m.merges = append(m.merges, bpe.Merge{A: ida, B: idb, Merged: merged})
		return nil
	}
	if !d.IsArray() {
		return malformedf(modelPath+".merges", "expected a list")
	}
	return d.Array(func() error {
		if d.IsArray() {
			pairs++
			n := 0
			err := d.Array(func() error {
				s, err := d.Bytes()
				if n < len(two) {
					two[n] = append(two[n][:0], s...)
				}
				n++
				return err
			})
			if err != nil {
				return err
			}
			if n != len(two) || lines > 0 {
				return malformedf(modelPath+".merges", "merge %d isn't a pair", len(m.merges))
			}
			return add(two[0], two[1])
		}
		lines++
		s, err := d.Bytes()
		if err != nil {
			return err
		}
		if strings.HasPrefix(string(s), "#version") {
			return nil // the first line of a merges.txt
		}
		a, b, ok := bytes.Cut(s, []byte(" "))
		if !ok || pairs > 0 || bytes.IndexByte(b, ' ') >= 0 {
			return malformedf(modelPath+".merges", "merge %d isn't a pair", len(m.merges))
		}
		return add(a, b)
	})
}

func (m *modelFile) config(byteLevel bool, cacheBytes int64) bpe.Config {
	return bpe.Config{
		Vocab:        m.vocab,
		Merges:       m.merges,
		ByteLevel:    byteLevel,
		ByteFallback: m.byteBack,
		IgnoreMerges: m.ignore,
		FuseUnk:      m.fuse,
		Unk:          m.unk,
		Prefix:       m.prefix,
		Suffix:       m.suffix,
		CacheBytes:   cacheBytes,
	}
}

// tokenTable finds a token by its id: a list where ids are dense, else a map.
type tokenTable struct {
	dense  []string
	taken  []bool
	sparse map[uint32]string
}

func newTokenTable(n int, highest uint32) tokenTable {
	const slack = 1 << 16
	if uint64(highest) < uint64(2*n+slack) {
		return tokenTable{dense: make([]string, highest+1), taken: make([]bool, highest+1)}
	}
	return tokenTable{sparse: make(map[uint32]string, n)}
}

func (t *tokenTable) put(id uint32, token string) bool {
	if t.sparse != nil {
		_, twice := t.sparse[id]
		t.sparse[id] = token
		return !twice
	}
	twice := t.taken[id]
	t.dense[id], t.taken[id] = token, true
	return !twice
}

func (t *tokenTable) get(id uint32) (string, bool) {
	if t.sparse != nil {
		s, ok := t.sparse[id]
		return s, ok
	}
	if uint64(id) >= uint64(len(t.dense)) || !t.taken[id] {
		return "", false
	}
	return t.dense[id], true
}
