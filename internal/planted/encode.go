package planted

import "encoding/json"

// Encode is what BodyEncodedAnew does: it reads an object and writes it again.
func Encode(body []byte) []byte {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		return body
	}
	again, err := json.Marshal(fields)
	if err != nil {
		return body
	}
	return again
}
