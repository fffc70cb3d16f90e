package kvsteer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
)

// WithClassifiers sets who finds out the tags that policies ask for. Requests are
// classified only for policies that ask (a [policy.Needy]), and only for the tags that
// they ask for. Tags that the gateway knows itself come in Request.Tags: say their
// names with [WithTags].
func WithClassifiers(set *classify.Set) Option {
	return optionFunc(func(o *options) { o.classifiers = set })
}

// WithTags names tags that the gateway gives in Request.Tags, so that policies may ask
// for them: one that asks for a tag that nobody produces is refused by New.
func WithTags(names ...string) Option {
	return optionFunc(func(o *options) { o.tags = append(o.tags, names...) })
}

// Tags lists the tags that policies may ask for: what [WithClassifiers] and [WithTags]
// said. It is what [policy.CheckOptions] should have for a policy that is loaded or
// changed later, and is never nil.
func (r *Router) Tags() []string { return r.opts.producible() }

func (o *options) producible() []string {
	out := append([]string{}, o.tags...)
	if o.classifiers != nil {
		out = append(out, o.classifiers.Tags()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkTags refuses a policy that asks for what nobody finds out: its rules would
// never fire, or always.
func (o *options) checkTags() error {
	needy, ok := o.current().(policy.Needy)
	if !ok {
		return nil
	}
	known := o.producible()
	var missing []string
	for _, tag := range needy.Needs().Tags {
		if !slices.Contains(known, tag) {
			missing = append(missing, quote(tag))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("kvsteer: the policy asks for the tags %s, which nobody produces: add a classifier with WithClassifiers, "+
		"or, if the gateway sets them in Request.Tags, name them with WithTags", strings.Join(missing, ", "))
}

// classify finds out the tags that the request's policy asks for. What is not found
// out is unknown, which policies take for the worse.
func (r *Router) classify(ctx context.Context, s *Selection, req *Request) {
	s.tags = once(req.Tags)
	needy, ok := s.policy.(policy.Needy)
	if !ok || r.opts.classifiers == nil {
		return
	}
	wanted := needy.Needs().Tags
	if !slices.ContainsFunc(wanted, func(tag string) bool { return slices.Contains(r.opts.classifiers.Tags(), tag) }) {
		return
	}
	in, _ := r.inputs.Get().(*classify.Input)
	defer func() {
		in.Reset()
		r.inputs.Put(in)
	}()
	if len(s.parsed.body) > 0 {
		classify.ExtractObject(in, s.parsed.api, s.parsed.object, r.opts.classifiers.MaxText())
	} else {
		in.Gaps = classify.GapTokens // all that there is of the prompt, if anything
	}
	in.API, in.Model, in.TrustedHeader = s.parsed.api, s.parsed.model, req.TrustedHeader
	var out classify.Result
	if err := r.opts.classifiers.ClassifyTags(ctx, wanted, in, &out); err != nil {
		if l := r.opts.logger; l != nil {
			if untold, tell := r.warnings.due("classifiers", r.opts.now()); tell {
				l.Warn("kvsteer: classifiers failed; their tags are unknown", slog.Any("error", err), slog.Int("untold", untold))
			}
		}
		s.unclassified = true
	}
	s.findings = out.Findings
	for _, tag := range out.Tags {
		if slices.Contains(wanted, tag.Name) {
			s.tags = said(s.tags, tag)
		}
	}
}

// reasonUnclassified is what decisions say; what a classifier says of its failure is
// for the log.
const reasonUnclassified = "tags: a classifier failed, so that what it would have said is unknown"

// said adds what a classifier says to what is known: a tag is present if anybody says
// so, and the gateway's word counts more than that nothing was found.
func said(tags []policy.Tag, tag policy.Tag) []policy.Tag {
	i := slices.IndexFunc(tags, func(t policy.Tag) bool { return t.Name == tag.Name })
	switch {
	case i < 0:
		return append(tags, tag)
	case tag.State == policy.TagPresent || tags[i].State == policy.TagUnknown:
		tags[i].State = tag.State
	}
	return tags
}
