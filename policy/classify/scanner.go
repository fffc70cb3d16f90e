package classify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/kvsteer/kvsteer/policy"
)

// The tags that a [Scanner] and a [LengthHeuristic] produce unless told otherwise.
const (
	TagPII            = "pii-detected"
	TagSecrets        = "secrets-detected"
	TagLowComplexity  = "complexity-low"
	TagHighComplexity = "complexity-high"
)

// ErrKind is wrapped by the error of [NewScanner] for a kind that there is not.
var ErrKind = errors.New("classify: no such kind")

// ScannerOptions configures a [Scanner]. The zero value finds all there is.
type ScannerOptions struct {
	// PIITag and SecretsTag are the tags; empty means [TagPII] and [TagSecrets].
	PIITag, SecretsTag string
	// Kinds are what to look for, empty means all of [Kinds]. A tag without kinds
	// is not produced.
	Kinds []Kind
	// IgnoreRoles are roles whose texts are not looked at, such as "system" and
	// "tools" where the application itself writes those, with an address of its own
	// in them. Clients choose roles: where they write the whole request, what they put
	// into such a message is not seen.
	IgnoreRoles []string
	// Ignore is what need not be read for the tags to be absent, such as [GapMedia]
	// where nobody sends photographed documents.
	Ignore Gap
}

// Scanner finds personal data and secrets in texts by their structure: check
// digits, ranges, lengths, prefixes, and words beside them where structure says
// too little. One pass over the text finds all; its time is linear in the text's
// length, a millisecond for some hundred thousand characters. What it finds and
// what it does not is said in docs/classify.md.
//
// The parts of one message are read as one text, with a line break between two of
// them, and where two meet also without one, so that nothing hides by being split.
// A text with a long run of base64 or hex has an unknown tag if no present one.
//
// A Scanner is immutable and safe for concurrent use.
type Scanner struct {
	tags   []string
	tagOf  [numKinds]string // "" for kinds that are not looked for
	ignore Gap
	roles  []string // that are not looked at
	pool   sync.Pool
}

// NewScanner returns a Scanner. The error wraps [ErrKind].
func NewScanner(opts ScannerOptions) (*Scanner, error) {
	if opts.PIITag == "" {
		opts.PIITag = TagPII
	}
	if opts.SecretsTag == "" {
		opts.SecretsTag = TagSecrets
	}
	for _, k := range opts.Kinds {
		if !slices.Contains(Kinds(), k) {
			return nil, fmt.Errorf("%w: %q", ErrKind, k)
		}
	}
	s := &Scanner{ignore: opts.Ignore, roles: slices.Clone(opts.IgnoreRoles)}
	s.pool.New = func() any { return new(scanning) }
	for k := range numKinds {
		if len(opts.Kinds) > 0 && !slices.Contains(opts.Kinds, k.name()) {
			continue
		}
		s.tagOf[k] = opts.PIITag
		if k >= firstSecret {
			s.tagOf[k] = opts.SecretsTag
		}
		if !slices.Contains(s.tags, s.tagOf[k]) {
			s.tags = append(s.tags, s.tagOf[k])
		}
	}
	return s, nil
}

// Tags implements [Classifier].
func (s *Scanner) Tags() []string { return s.tags }

// Tolerates implements [Tolerant].
func (s *Scanner) Tolerates() Gap { return s.ignore }

// Classify implements [Classifier].
func (s *Scanner) Classify(ctx context.Context, in *Input, out *Result) error {
	return eachMessage(ctx, s, in, out)
}

// ClassifyMessages implements [MessageClassifier].
func (s *Scanner) ClassifyMessages(ctx context.Context, messages []Input, out []Result) error {
	w, isScanning := s.pool.Get().(*scanning)
	if !isScanning {
		w = new(scanning)
	}
	defer s.release(w)
	for i := range messages {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.message(w, s.seen(w, messages[i].Parts), &out[i])
	}
	return nil
}

// release keeps memory for the next scan, unless it is that of an odd one.
func (s *Scanner) release(w *scanning) {
	const mostHits = 1 << 14
	if cap(w.scan.hits) > mostHits {
		w.scan.hits, w.found = nil, nil
	}
	clear(w.parts)
	s.pool.Put(w)
}

// bounded: a scan takes milliseconds at the most, and needs no goroutine.
func (*Scanner) bounded() {}

// seen is the parts without the texts of roles that are not looked at.
func (s *Scanner) seen(w *scanning, parts []Part) []Part {
	if len(s.roles) == 0 {
		return parts
	}
	w.parts = append(w.parts[:0], parts...)
	for i := range w.parts {
		if slices.Contains(s.roles, w.parts[i].Role) {
			w.parts[i].Text = nil // the places of the others stay what they are
		}
	}
	return w.parts
}

// scanning is the memory that scanning a message takes.
type scanning struct {
	scan   scan
	fold   fold
	parts  []Part
	starts []int // where each part begins in the joined text, of which origins tell
	cuts   []int // where long parts were cut in the text of seams
	found  []hit // what was found in the joined text, by where it came from
}

// message judges one message.
func (s *Scanner) message(w *scanning, parts []Part, out *Result) {
	blob := false
	w.starts = w.starts[:0]
	w.scan.hits = w.scan.hits[:0]
	if len(parts) == 1 && plain(parts[0].Text) {
		w.fold.reset()
		w.starts = append(w.starts, 0)
		w.scan.run(parts[0].Text)
		blob = w.scan.blob
	} else if len(parts) > 0 {
		w.join(parts)
		w.scan.run(w.fold.text)
		blob = w.scan.blob
	}
	s.report(w, w.scan.hits, out)
	if len(parts) > 1 {
		w.found = w.found[:0]
		for _, h := range w.scan.hits {
			w.found = append(w.found, hit{kind: h.kind, start: w.fold.origin(h.start)})
		}
		slices.SortFunc(w.found, byStart)
		w.scan.hits = w.scan.hits[:0]
		w.seams(parts)
		w.scan.seam = true
		w.scan.run(w.fold.text)
		w.scan.seam = false
		blob = w.scan.blob || blob
		s.report(w, w.news(), out)
	}
	w.scan.text = nil
	for _, tag := range s.tags {
		state := policy.TagAbsent
		if blob {
			state = policy.TagUnknown
		}
		if slices.ContainsFunc(out.Findings, func(f Finding) bool { return f.Tag == tag }) {
			state = policy.TagPresent
		}
		out.Set(tag, state)
	}
}

// report adds hits to a result.
func (s *Scanner) report(w *scanning, hits []hit, out *Result) {
	for _, h := range hits {
		if tag := s.tagOf[h.kind]; tag != "" {
			out.Find(tag, h.kind.name(), w.place(h.start))
		}
	}
}

// join makes one text of the parts, with a line break between them, as engines do.
func (w *scanning) join(parts []Part) {
	w.fold.reset()
	origin := 0
	for i := range parts {
		if i > 0 {
			w.fold.text = append(w.fold.text, '\n')
			origin++
		}
		w.starts = append(w.starts, origin)
		w.fold.add(parts[i].Text, origin)
		origin += len(parts[i].Text)
	}
}

// seamBytes is how much of a long part is looked at on either side of where it
// meets another: more than anything that is looked for.
const seamBytes = 512

// seams makes one text of where parts meet that are said in one piece: without a
// line break, and of long parts the ends only. starts keeps what join wrote.
func (w *scanning) seams(parts []Part) {
	w.fold.reset()
	w.cuts = w.cuts[:0]
	for i := range parts {
		text, origin := parts[i].Text, w.starts[i]
		if parts[i].aside {
			continue
		}
		if len(text) > 2*seamBytes {
			w.fold.add(text[:seamBytes], origin)
			w.cuts = append(w.cuts, len(w.fold.text))
			w.fold.text = append(w.fold.text, '\n', '\n')
			cut := len(text) - seamBytes
			text, origin = text[cut:], origin+cut
		}
		w.fold.add(text, origin)
	}
}

// news keeps the hits that were not found in the joined text: those that lie where
// two parts meet, or that a word speaks of which does. What is near to where a long
// part was cut may be a piece of something longer, and was seen whole before.
func (w *scanning) news() []hit {
	const near = seamBytes / 4
	kept := w.scan.hits[:0]
	cut := 0 // the first that ends not far before the hit; hits and cuts are in order
	for _, h := range w.scan.hits {
		for cut < len(w.cuts) && w.cuts[cut]+near < h.start {
			cut++
		}
		if cut < len(w.cuts) && w.cuts[cut] < h.end+near {
			continue
		}
		if _, known := slices.BinarySearchFunc(w.found, hit{kind: h.kind, start: w.fold.origin(h.start)}, byStart); !known {
			kept = append(kept, h)
		}
	}
	return kept
}

func byStart(a, b hit) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.kind, b.kind)) }

// place tells where a byte of the folded text came from.
func (w *scanning) place(i int) Place {
	at := w.fold.origin(i)
	part := sort.SearchInts(w.starts, at+1) - 1
	part = max(part, 0)
	return Place{Part: part, Offset: at - w.starts[part]}
}
