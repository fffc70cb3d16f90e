package dialect

import (
	"encoding/base64"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// Gemini signs its calls, and from its third generation on refuses to go on with one whose
// signature isn't handed back. In chat completions it is in extra_content of the call. The
// other APIs have no place for it, so there it is part of the call's id, which clients hand
// back with the call and with its result and read nothing in.
const (
	markCall = "_kvsig_"
	// maxSignature bounds what an id may carry, in bytes. A longer one stays away.
	maxSignature = 16 << 10
	// skipSignature is what Gemini documents for calls that it has not made, or whose
	// signature was lost.
	skipSignature = "skip_thought_signature_validator"
)

// sealedID is a call's id with its signature, in letters that all APIs take.
func sealedID(id, signature string) string {
	if signature == "" || len(signature) > maxSignature {
		return id
	}
	return id + markCall + base64.RawURLEncoding.EncodeToString([]byte(signature))
}

// unsealedID takes the two apart again. Any other id is as it is.
func unsealedID(sealed string) (id, signature string) {
	id, code, ok := strings.Cut(sealed, markCall)
	if !ok {
		return sealed, ""
	}
	text, err := base64.RawURLEncoding.DecodeString(code)
	if err != nil || len(text) == 0 || len(text) > maxSignature {
		return sealed, ""
	}
	return id, string(text)
}

// callSignature reads that of a call in chat completions.
func callSignature(call jsonscan.Value) string {
	s, _ := call.Get("extra_content").Get("google").Get("thought_signature").Str()
	return s
}

// gemini is what a model's name says of signatures.
type gemini struct {
	// signs: it takes them. strict: it refuses calls without.
	signs, strict bool
}

// geminiOf reads a name: gemini-2.5-pro, google/gemini-3-pro-preview, gemini-flash-latest.
func geminiOf(model string) gemini {
	_, rest, ok := strings.Cut(strings.ToLower(model), "gemini")
	if !ok {
		return gemini{}
	}
	rest = strings.TrimLeft(rest, "-_")
	return gemini{signs: true, strict: !strings.HasPrefix(rest, "1") && !strings.HasPrefix(rest, "2")}
}

// signature is what to send with the n-th call of a turn to a chat service: Gemini signs the
// first of parallel calls only.
func (e *chatWriter) signature(p *Part, n int, path string) string {
	switch {
	case p.Signature != "" && e.gemini.signs:
		return p.Signature
	case p.Signature != "":
		e.warn(path, "its signature is for the service that made the call, and stays away")
	case n == 0 && e.gemini.strict:
		e.warn(path, "it has no signature: the service is asked to go on without")
		return skipSignature
	default:
	}
	return ""
}
