package jinja

// FromJSON decodes a JSON document as Python's json.loads does: objects keep the
// order of their keys (a repeated key keeps its first place and its last value),
// ints have any size, floats are floats (1.0 stays 1.0), NaN, Infinity and
// -Infinity are accepted, and lone surrogates are kept. The error is an *Error of
// kind Runtime.
func FromJSON(data []byte) (Value, error) {
	_ = data
	return nil, unsupported("not built yet")
}

// AppendJSON appends v as Python's json.dumps(v, ensure_ascii=False) writes it.
func AppendJSON(dst []byte, v Value) ([]byte, error) {
	_ = v
	return dst, unsupported("not built yet")
}
