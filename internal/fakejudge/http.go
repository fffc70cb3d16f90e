package fakejudge

import (
	"encoding/json"
	"net/http"
)

// created is when every answer was made.
const created = int64(1_800_000_000)

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}

// texts is one text or several.
type texts []string

// UnmarshalJSON takes both forms.
func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}
