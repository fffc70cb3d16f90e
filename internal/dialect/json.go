package dialect

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// jsonWriter appends a JSON text. Commas are its: where the last byte opens something or ends
// a key there is none, else there is one. The names of members are ours and need no escapes.
type jsonWriter struct{ b []byte }

func (w *jsonWriter) sep() {
	if n := len(w.b); n > 0 {
		switch w.b[n-1] {
		case '{', '[', ':', ',':
		default:
			w.b = append(w.b, ',')
		}
	}
}

func (w *jsonWriter) key(name string) *jsonWriter {
	w.sep()
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
	return w
}

// open begins an object or an array, and end ends one.
func (w *jsonWriter) open(c byte) {
	w.sep()
	w.b = append(w.b, c)
}

func (w *jsonWriter) end(c byte) { w.b = append(w.b, c) }

func (w *jsonWriter) str(s string) {
	w.sep()
	w.b = jsonscan.AppendString(w.b, s)
}

func (w *jsonWriter) int(n int64) {
	w.sep()
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *jsonWriter) bool(v bool) {
	w.sep()
	w.b = strconv.AppendBool(w.b, v)
}

// raw appends JSON as it is. Nothing appends null.
func (w *jsonWriter) raw(text string) {
	w.sep()
	if text == "" {
		text = "null"
	}
	w.b = append(w.b, text...)
}

// oneLine is JSON that others wrote without the line breaks that it may have between its
// tokens: in a stream a line that begins with something else than its field is lost. What
// can't be read becomes the other text.
func oneLine(raw []byte, other string) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return other
	}
	return b.String()
}
