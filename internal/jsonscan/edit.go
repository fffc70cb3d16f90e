package jsonscan

import "bytes"

// Edit is a set of changes to an object's top-level fields. The zero Edit
// changes nothing. Build it with its methods, then [Edit.Apply] it, any number of
// times. Of several changes to one key the last counts, except that SetIn
// changes with different inner keys add up.
type Edit struct {
	changes []change
}

type verb uint8

const (
	setRaw verb = iota + 1
	setString
	setIn
	remove
)

type change struct {
	verb  verb
	key   string
	inner string
	text  string
	raw   []byte
}

// usualChanges is how many changes an Edit holds without growing.
const usualChanges = 4

func (e *Edit) add(c change) {
	if e.changes == nil {
		e.changes = make([]change, 0, usualChanges)
	}
	e.changes = append(e.changes, c)
}

// Set gives key the raw JSON value. It replaces the value of every field with
// that key, or adds one after the last field. The slice is kept, not copied.
func (e *Edit) Set(key string, raw []byte) { e.add(change{verb: setRaw, key: key, raw: raw}) }

// SetString gives key a string. Fields whose string means the same already are
// left as they are spelled.
func (e *Edit) SetString(key, text string) {
	e.add(change{verb: setString, key: key, text: text})
}

// SetIn gives the member inner of the object outer the raw JSON value, keeping
// outer's other members. An absent or null outer becomes an object.
func (e *Edit) SetIn(outer, inner string, raw []byte) {
	e.add(change{verb: setIn, key: outer, inner: inner, raw: raw})
}

// Delete removes every field with that key, and the comma beside it.
func (e *Edit) Delete(key string) { e.add(change{verb: remove, key: key}) }

// Apply returns the object's text with the changes made and every other byte as
// it was. When nothing changes it returns the text itself, else one new slice.
// It fails when a raw value is not JSON or when SetIn meets an outer field that
// is neither an object nor null; the error's offset is then in the value or in
// the text, respectively.
func (e *Edit) Apply(o Object) ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	todo, extra, err := e.pending(o)
	if err != nil {
		return nil, err
	}
	if !todo {
		return o.body, nil
	}
	out := make([]byte, 0, len(o.body)+extra)
	head, tail := o.insert, o.insert
	if n := len(o.fields); n > 0 {
		head, tail = int(o.fields[0].key), int(o.fields[n-1].end)
	}
	out = append(out, o.body[:head]...)
	kept := false
	for i, f := range o.fields {
		c := e.last(o, f)
		if c != nil && c.verb == remove {
			continue
		}
		if kept { // the separator before this field, as it is spelled
			out = append(out, o.body[o.fields[i-1].end:f.key]...)
		}
		kept = true
		out = append(out, o.body[f.key:f.val]...)
		out = e.appendValue(out, c, o.value(f))
	}
	for i := range e.changes {
		c := &e.changes[i]
		if !e.inserts(o, i) {
			continue
		}
		if kept {
			out = append(out, ',')
		}
		kept = true
		out = AppendString(out, c.key)
		out = append(out, ':')
		out = e.appendValue(out, e.lastFor(c.key), Value{})
	}
	return append(out, o.body[tail:]...), nil
}

func (e *Edit) check() error {
	for i := range e.changes {
		c := &e.changes[i]
		if c.verb != setRaw && c.verb != setIn {
			continue
		}
		if _, err := ParseValue(c.raw, 0); err != nil {
			return err
		}
	}
	return nil
}

// pending says whether the changes change anything and how many bytes they add,
// at most if the text has no duplicates of the fields that it sets.
func (e *Edit) pending(o Object) (todo bool, extra int, err error) {
	const punctuation = 16 // quotes, colon, comma, braces, twice
	for i := range e.changes {
		c := &e.changes[i]
		// A byte that needs an escape takes six.
		extra += punctuation + 6*(len(c.key)+len(c.inner)+len(c.text)) + len(c.raw)
		todo = todo || e.inserts(o, i)
	}
	for _, f := range o.fields {
		c := e.last(o, f)
		if c == nil {
			continue
		}
		v := o.value(f)
		if c.verb == setIn && v.Kind() != KindObject && v.Kind() != KindNull {
			return false, 0, &Error{Offset: v.off, Reason: reasonNotObject}
		}
		todo = todo || !e.same(c, v)
	}
	return todo, extra, nil
}

// same reports whether change c leaves v as it is.
func (e *Edit) same(c *change, v Value) bool {
	switch c.verb {
	case setString:
		return v.Is(c.text)
	case setRaw:
		return bytes.Equal(v.raw, bytes.TrimSpace(c.raw))
	case setIn:
		return e.innersSame(c.key, v)
	default:
		return false
	}
}

// last returns the change that decides about field f, nil if none does.
func (e *Edit) last(o Object, f field) *change {
	for i := len(e.changes) - 1; i >= 0; i-- {
		if o.keyIs(f, e.changes[i].key) {
			return &e.changes[i]
		}
	}
	return nil
}

func (e *Edit) lastFor(key string) *change {
	for i := len(e.changes) - 1; i >= 0; i-- {
		if e.changes[i].key == key {
			return &e.changes[i]
		}
	}
	return nil
}

// inserts reports whether change i adds a field: it is the first one of its key,
// the key is absent, and in the end it is to be there.
func (e *Edit) inserts(o Object, i int) bool {
	key := e.changes[i].key
	for k := range i {
		if e.changes[k].key == key {
			return false
		}
	}
	if _, found := o.Get(key); found {
		return false
	}
	return e.lastFor(key).verb != remove
}

// appendValue appends what change c makes of v, which may be absent.
func (e *Edit) appendValue(out []byte, c *change, v Value) []byte {
	if c == nil {
		return append(out, v.raw...)
	}
	switch c.verb {
	case setString:
		if v.Is(c.text) {
			return append(out, v.raw...)
		}
		return AppendString(out, c.text)
	case setIn:
		return e.appendInner(out, c.key, v)
	default:
		return append(out, bytes.TrimSpace(c.raw)...)
	}
}
