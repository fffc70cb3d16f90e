package classify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/policy"
)

// The defaults of a [Set].
const (
	DefaultTimeout     = 250 * time.Millisecond
	DefaultMaxInFlight = 64
	DefaultCacheBytes  = 8 << 20
)

// Member is a classifier in a [Set].
type Member struct {
	Classifier Classifier
	// Timeout is how long a request waits for the classifier; 0 means
	// [DefaultTimeout]. It does not concern those of this package that ask nobody,
	// which take no longer than the text's length allows.
	Timeout time.Duration
	// MaxInFlight bounds the calls of the classifier that are under way, those
	// included that nobody waits for any more; 0 means [DefaultMaxInFlight].
	MaxInFlight int
}

// SetOptions configures a [Set].
type SetOptions struct {
	// Members are asked all at once. Several may produce the same tag: it is present
	// if one of them says so, absent if all of them do, else unknown.
	Members []Member
	// CacheBytes bounds the memory for what is known about messages; 0 means
	// [DefaultCacheBytes], enough for some 40,000 messages, less than 0 none.
	CacheBytes int
	// MaxText is the bytes of text that whoever makes the requests for this Set should
	// read of each, as [Extract] takes it; 0 means [DefaultMaxText].
	MaxText int
}

// Set asks several classifiers about a request. Each has a deadline of its own; one
// that fails, panics or is late makes its tags unknown, and delays nothing else. A
// classifier that does not return when its context is done keeps a goroutine and a
// copy of the texts until it does, at most [Member.MaxInFlight] times.
//
// What a [MessageClassifier] said about a message is remembered, so that of a
// conversation only what is new is classified.
//
// A Set is itself a Classifier. It is safe for concurrent use, owns nothing that
// must be closed, and has no goroutine but for calls under way.
type Set struct {
	members []*member
	tags    []string
	maxText int
	cache   *cache // nil for none
	pool    sync.Pool
}

// member is a Member at work.
type member struct {
	Classifier

	index     int
	messages  MessageClassifier // nil if it judges whole requests
	bounded   bool              // it is called right here
	tolerates Gap
	timeout   time.Duration
	most      int64
	underWay  atomic.Int64
}

// NewSet returns a Set. The error says which member can't be used.
func NewSet(opts SetOptions) (*Set, error) {
	s := &Set{maxText: opts.MaxText}
	if s.maxText <= 0 {
		s.maxText = DefaultMaxText
	}
	s.pool.New = func() any { return new(round) }
	for i, m := range opts.Members {
		if m.Classifier == nil {
			return nil, fmt.Errorf("classify: member %d has no classifier", i)
		}
		tags := m.Classifier.Tags()
		if len(tags) == 0 {
			return nil, fmt.Errorf("classify: the classifier of member %d produces no tags", i)
		}
		if _, ok := m.Classifier.(MessageClassifier); ok && len(tags) > mostTags {
			return nil, fmt.Errorf("classify: the classifier of member %d produces more than %d tags", i, mostTags)
		}
		for k, tag := range tags {
			if tag == "" || slices.Contains(tags[:k], tag) {
				return nil, fmt.Errorf("classify: the classifier of member %d produces an empty tag, or one twice: %q", i, tag)
			}
			if !slices.Contains(s.tags, tag) {
				s.tags = append(s.tags, tag)
			}
		}
		at := &member{
			Classifier: m.Classifier, index: i, tolerates: tolerated(m.Classifier),
			timeout: m.Timeout, most: int64(m.MaxInFlight),
		}
		if at.timeout <= 0 {
			at.timeout = DefaultTimeout
		}
		if at.most <= 0 {
			at.most = DefaultMaxInFlight
		}
		at.messages, _ = m.Classifier.(MessageClassifier)
		_, at.bounded = m.Classifier.(interface{ bounded() })
		s.members = append(s.members, at)
	}
	if opts.CacheBytes == 0 {
		opts.CacheBytes = DefaultCacheBytes
	}
	if opts.CacheBytes > 0 {
		s.cache = newCache(opts.CacheBytes)
	}
	return s, nil
}

// Tags implements [Classifier]: the tags of all members.
func (s *Set) Tags() []string { return s.tags }

// MaxText is the bytes of text to read of each request, see [SetOptions.MaxText].
func (s *Set) MaxText() int { return s.maxText }

// Tolerates implements [Tolerant]: what matters to each member is taken care of.
func (s *Set) Tolerates() Gap { return ^Gap(0) }

// Classify implements [Classifier]. The error joins an [*Error] for each member
// that failed; out is complete nevertheless.
func (s *Set) Classify(ctx context.Context, in *Input, out *Result) error {
	return s.ClassifyTags(ctx, nil, in, out)
}

// ClassifyTags is Classify by those members only that produce one of the tags that
// are wanted; nil means all. Others of their tags are in out, too.
func (s *Set) ClassifyTags(ctx context.Context, wanted []string, in *Input, out *Result) error {
	r := s.round(ctx, in)
	defer s.done(r)
	for _, m := range s.members {
		if wanted == nil || slices.ContainsFunc(m.Tags(), func(t string) bool { return slices.Contains(wanted, t) }) {
			r.call(m)
		}
	}
	for i := range r.calls { // those that take their time first
		if !r.calls[i].bounded {
			r.start(&r.calls[i])
		}
	}
	out.Reset()
	var failed []error
	for _, bounded := range [...]bool{true, false} {
		for i := range r.calls {
			c := &r.calls[i]
			switch {
			case c.bounded != bounded:
				continue
			case bounded:
				r.here(c)
			default:
				r.wait(c)
			}
			r.conclude(c, out)
			if c.err != nil {
				failed = append(failed, &Error{Index: c.index, Tag: c.Tags()[0], Err: ofDeadlines(c.err)})
			}
		}
	}
	return errors.Join(failed...)
}

// conclude puts what a member said into out.
func (r *round) conclude(c *call, out *Result) {
	silent := false
	for k, tag := range c.Tags() {
		state := c.state(r, k, tag, &silent)
		if state == policy.TagAbsent && r.in.Gaps&^c.tolerates != 0 {
			state = policy.TagUnknown
		}
		if out.has(tag) {
			state = worse(state, out.State(tag))
		}
		out.Set(tag, state)
	}
	if silent && c.err == nil {
		c.err = ErrSilent
	}
	if c.messages == nil {
		out.add(c.whole.Findings, 0)
		return
	}
	for i := range r.spans {
		if c.known[i] {
			out.add(c.verdicts[i].findings, r.spans[i].first)
		}
	}
}

// state combines what was said about a tag, the k-th of the member's.
func (c *call) state(r *round, k int, tag string, silent *bool) policy.TagState {
	if c.messages == nil {
		*silent = *silent || !c.whole.has(tag)
		return c.whole.State(tag)
	}
	state := policy.TagAbsent
	for i := range r.spans {
		if !c.known[i] {
			*silent = true
			state = worse(state, policy.TagUnknown)
			continue
		}
		state = worse(state, c.verdicts[i].state(k))
	}
	return state
}
