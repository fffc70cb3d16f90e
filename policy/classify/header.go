package classify

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/policy"
)

// HeaderTags is the header that [Header] reads unless told otherwise.
const HeaderTags = "X-Kvsteer-Tags"

// errHeader: whoever writes the header must be mended.
var errHeader = errors.New("the header must be a list such as \"pii-detected=absent, legal=present\"; " +
	"the states are present, absent and unknown")

// Header takes tags from a header that a gateway in front set:
//
//	X-Kvsteer-Tags: pii-detected=absent, secrets-detected=present
//
// It reads [Input.TrustedHeader] only, which whoever makes the request fills if the
// peer is to be believed and such headers of clients are removed before. Without it,
// and for tags that the header leaves out, the state is unknown. Where the header
// speaks of a tag twice, the worse counts: present, then unknown. It is safe for
// concurrent use.
type Header struct {
	name string
	tags []string
}

// NewHeader returns a classifier that reads the tags from a header; an empty name
// means [HeaderTags].
func NewHeader(name string, tags ...string) *Header {
	if name == "" {
		name = HeaderTags
	}
	return &Header{name: name, tags: slices.Clone(tags)}
}

// Tags implements [Classifier].
func (h *Header) Tags() []string { return h.tags }

// Tolerates implements [Tolerant]: whoever wrote the header has seen the request.
func (h *Header) Tolerates() Gap { return ^Gap(0) }

func (*Header) bounded() {}

// Classify implements [Classifier]. A header that can't be read is an error.
func (h *Header) Classify(_ context.Context, in *Input, out *Result) error {
	if in.TrustedHeader != nil {
		for _, line := range in.TrustedHeader.Values(h.name) {
			for item := range strings.SplitSeq(line, ",") {
				if strings.TrimSpace(item) == "" {
					continue
				}
				if err := h.item(item, out); err != nil {
					return err
				}
			}
		}
	}
	for _, tag := range h.tags {
		if !out.has(tag) {
			out.Set(tag, policy.TagUnknown)
		}
	}
	return nil
}

func (h *Header) item(item string, out *Result) error {
	tag, word, ok := strings.Cut(item, "=")
	tag, word = strings.TrimSpace(tag), strings.TrimSpace(word)
	var state policy.TagState
	switch word {
	case "present":
		state = policy.TagPresent
	case "absent":
		state = policy.TagAbsent
	case "unknown":
	default:
		ok = false
	}
	switch {
	case !ok:
		return errHeader
	case !slices.Contains(h.tags, tag): // for somebody else
	case out.has(tag):
		out.Set(tag, worse(state, out.State(tag)))
	default:
		out.Set(tag, state)
	}
	return nil
}
