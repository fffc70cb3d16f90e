package hftok

import (
	"bytes"
	"errors"
	"math"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// prepare parses the file and returns it as the library is to read it: without truncation and
// padding, which some models' files carry over from training, which the library
// would obey, and which engines turn off. A file whose ids would not be those of
// an engine is refused.
func prepare(data []byte) (jsonscan.Object, []byte, error) {
	var none jsonscan.Object
	if len(data) == 0 {
		return none, nil, &LoadError{Reason: "is empty"}
	}
	if uint64(len(data)) > math.MaxUint32 {
		return none, nil, &LoadError{Reason: "is larger than 4 GiB"}
	}
	file, err := jsonscan.Parse(data, 0)
	if err != nil {
		return none, nil, &LoadError{Reason: "is not a JSON object", Err: err}
	}
	for i := range file.Len() {
		// Which of two counts is not for us to guess.
		if key, _ := file.Field(i); file.Count(string(key)) > 1 {
			return none, nil, &LoadError{Reason: "has a field twice: " + string(key)}
		}
	}
	if hasNUL(file) {
		return none, nil, &LoadError{Reason: "has a NUL in a place other than the vocabulary", Err: errors.ErrUnsupported}
	}
	if dropout := file.Value("model").Get("dropout"); dropout.Exists() {
		if p, ok := dropout.Float(); !ok || p != 0 {
			return none, nil, &LoadError{Reason: "model.dropout makes ids random", Err: errors.ErrUnsupported}
		}
	}
	var e jsonscan.Edit
	for _, key := range [...]string{"truncation", "padding"} {
		if file.Value(key).Exists() {
			e.Set(key, []byte("null"))
		}
	}
	out, err := e.Apply(file)
	if err != nil {
		return none, nil, &LoadError{Reason: "is not a JSON object", Err: err}
	}
	return file, out, nil
}

// hasNUL reports whether there is a NUL where the library's complaints quote what
// they are about: it ends the process over a complaint that has one. Tokens may
// have NULs, and a complaint about those spells them with an escape.
func hasNUL(file jsonscan.Object) bool {
	for i := range file.Len() {
		key, v := file.Field(i)
		switch string(key) {
		case "model":
			for it := v.Iter(); it.Next(); {
				if string(it.Key()) != "vocab" && spellsNUL(it.Value().Raw()) {
					return true
				}
			}
		case "added_tokens":
		default:
			if spellsNUL(v.Raw()) {
				return true
			}
		}
	}
	return false
}

// spellsNUL may err on the safe side, over an escaped backslash.
func spellsNUL(raw []byte) bool { return bytes.Contains(raw, []byte(`\u0000`)) }
