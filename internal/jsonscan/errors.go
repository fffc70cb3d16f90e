package jsonscan

import "strconv"

// Error is what is wrong with a JSON text and where. It never holds any of the
// text, so it may be logged and sent to the client.
type Error struct {
	// Offset is in bytes from the start of the text.
	Offset int
	// Reason is one of a fixed set of phrases.
	Reason string
}

// Error gives the reason and the offset.
func (e *Error) Error() string {
	return "json: " + e.Reason + " at byte " + strconv.Itoa(e.Offset)
}

// The reasons.
const (
	reasonEOF       = "unexpected end"
	reasonChar      = "unexpected character"
	reasonTrailing  = "text after the value"
	reasonDepth     = "nested too deeply"
	reasonControl   = "control character in string"
	reasonUTF8      = "invalid UTF-8"
	reasonEscape    = "invalid escape"
	reasonNumber    = "malformed number"
	reasonNotObject = "not an object"
	reasonFields    = "too many fields"
	reasonTooLong   = "text too long"
)
