package dialect

import (
	"encoding/json"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// The readers of single values: what is of another type is the client's error.

func textOf(field string, v jsonscan.Value) (string, error) {
	s, ok := v.Str()
	if !ok {
		return "", &BodyError{Field: field, Reason: "must be a string"}
	}
	return s, nil
}

func flagOf(field string, v jsonscan.Value) (*bool, error) {
	b, ok := v.Bool()
	if !ok {
		return nil, &BodyError{Field: field, Reason: "must be true or false"}
	}
	return &b, nil
}

// limitOf reads how long an answer may be. To take 0 for nothing said would give the client
// an answer that it didn't ask for.
func limitOf(field string, v jsonscan.Value) (int64, error) {
	n, ok := v.Int()
	if !ok || n < 1 {
		return 0, &BodyError{Field: field, Reason: "must be a whole number, at least 1"}
	}
	return n, nil
}

// numberOf keeps a number as the client wrote it.
func numberOf(field string, v jsonscan.Value) (json.Number, error) {
	if v.Kind() != jsonscan.KindNumber {
		return "", &BodyError{Field: field, Reason: "must be a number"}
	}
	return json.Number(v.Raw()), nil
}
