package jsontree

import "fmt"

// Kind is the type of a JSON value.
type Kind uint8

// The kinds of JSON values.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// Value is a JSON value that was read as a whole.
type Value struct {
	Kind    Kind
	Bool    bool
	Text    string   // the content of a string, the literal of a number
	Items   []Value  // of an array
	Members []Member // of an object, in their order; keys are distinct
}

// Member is one member of an object.
type Member struct {
	Key   string
	Value Value
}

// Get returns the member with that key, nil if there is none.
func (v *Value) Get(key string) *Value {
	for i := range v.Members {
		if v.Members[i].Key == key {
			return &v.Members[i].Value
		}
	}
	return nil
}

// Value reads whatever comes next. Two equal keys in one object are an error: readers
// differ in which they believe.
func (d *Decoder) Value() (Value, error) {
	switch c := d.peek(); c {
	case '{':
		return d.object()
	case '[':
		v := Value{Kind: Array}
		err := d.Array(func() error {
			item, err := d.Value()
			v.Items = append(v.Items, item)
			return err
		})
		return v, err
	case '"':
		s, err := d.Bytes()
		return Value{Kind: String, Text: string(s)}, err
	case 't', 'f', 'n':
		switch {
		case d.word("true"):
			return Value{Kind: Bool, Bool: true}, nil
		case d.word("false"):
			return Value{Kind: Bool}, nil
		case d.word("null"):
			return Value{}, nil
		}
		return Value{}, d.fail("unknown word")
	default:
		s, err := d.number()
		return Value{Kind: Number, Text: s}, err
	}
}

func (d *Decoder) object() (Value, error) {
	v := Value{Kind: Object}
	seen := map[string]bool{}
	err := d.Object(func(k []byte) error {
		key := string(k)
		if seen[key] {
			return d.fail(fmt.Sprintf("key %q occurs twice", key))
		}
		seen[key] = true
		m, err := d.Value()
		v.Members = append(v.Members, Member{key, m})
		return err
	})
	return v, err
}

// Skip reads a value and forgets it.
func (d *Decoder) Skip() error {
	switch d.peek() {
	case '{':
		return d.Object(func([]byte) error { return d.Skip() })
	case '[':
		return d.Array(d.Skip)
	case '"':
		_, err := d.Bytes()
		return err
	default:
		_, err := d.Value()
		return err
	}
}
