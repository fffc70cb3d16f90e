package classify

import (
	"net/http"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Gap is a set of reasons why a request can't be judged by its texts alone.
type Gap uint16

// The gaps. Each makes tags unknown that would be absent.
const (
	GapImage     Gap = 1 << iota // a picture, wherever it is
	GapAudio                     // sound
	GapVideo                     // moving pictures
	GapFile                      // a document that is not plain text, or is only named
	GapTokens                    // token ids or embeddings in place of text
	GapStored                    // what a server has: an earlier response, a conversation, a stored prompt
	GapOpaque                    // encrypted or redacted reasoning
	GapUnknown                   // a part of a kind that is not known here, though its strings were read
	GapTruncated                 // more text than was to be read
	GapBody                      // the request's body is not there or not JSON
)

// GapMedia is everything that a text classifier is blind to but that has no text
// of the client's own writing in it, as a rule.
const GapMedia = GapImage | GapAudio | GapVideo

// String names the gaps, such as "image, truncated"; "" for none.
func (g Gap) String() string {
	var names []string
	for i, name := range [...]string{
		"image", "audio", "video", "file", "tokens", "stored", "opaque", "unknown part", "truncated", "body",
	} {
		if g&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Part is one text of a request.
type Part struct {
	// Message numbers the messages of a request from 0. Parts of one message have
	// the same number and follow each other.
	Message int
	// Role is the message's, such as "user" or "tool". Results of tools are "tool" in
	// whatever message they come, tool definitions "tools", and what a body holds
	// beside its prompt is "request".
	Role string
	// Text is what the client wrote, without JSON's escapes. It must not be changed.
	Text []byte

	// aside: the text is not part of what the message says in one piece: a name, a
	// tool's arguments, a text that was decoded once more.
	aside bool
}

// Input is what a classifier sees of a request. The zero value is an empty
// request; [Extract] fills it. A classifier must neither change nor keep it.
// An Input may be used again for another request, when it keeps its memory.
type Input struct {
	API   prompt.API
	Model string
	// Parts are all texts in the order of the request.
	Parts []Part
	// Gaps is what Parts lack.
	Gaps Gap
	// Bytes is the length of all texts, those included that were cut off.
	Bytes int
	// Tools is the number of tools that the request defines.
	Tools int
	// TrustedHeader is the header of a request whose peer may be believed. Whoever
	// fills it vouches that the gateway itself wrote what is read from it. Nil is
	// the right value for a client's request.
	TrustedHeader http.Header

	buf  []byte // of texts that had escapes
	left int    // bytes of text that are still to be read
}

// Reset empties in and keeps its memory.
func (in *Input) Reset() {
	clear(in.Parts)
	*in = Input{Parts: in.Parts[:0], buf: in.buf[:0]}
}

// AddText adds a message of one text, as [Extract] would. It is for requests that
// do not come as JSON.
func (in *Input) AddText(role, text string) {
	in.Parts = append(in.Parts, Part{Message: in.nextMessage(), Role: role, Text: []byte(text)})
	in.Bytes += len(text)
}

func (in *Input) nextMessage() int {
	if n := len(in.Parts); n > 0 {
		return in.Parts[n-1].Message + 1
	}
	return 0
}

// message returns the parts of the message that begins at part i, and the index
// of the next message's first part.
func (in *Input) message(i int) (parts []Part, next int) {
	next = i + 1
	for next < len(in.Parts) && in.Parts[next].Message == in.Parts[i].Message {
		next++
	}
	return in.Parts[i:next], next
}

// clone is a copy that stays whole when the request's memory is used again.
func (in *Input) clone() *Input {
	c := *in
	c.buf, c.Parts = nil, make([]Part, len(in.Parts))
	total := 0
	for i := range in.Parts {
		total += len(in.Parts[i].Text)
	}
	text := make([]byte, 0, total)
	for i, p := range in.Parts {
		from := len(text)
		text = append(text, p.Text...)
		c.Parts[i] = p
		c.Parts[i].Text = text[from:len(text):len(text)]
	}
	c.TrustedHeader = in.TrustedHeader.Clone()
	return &c
}
