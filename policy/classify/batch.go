package classify

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
)

const (
	// mostTexts is how many OpenAI's endpoint takes at once.
	mostTexts = 32
	// mostRefused bounds the texts of one request that are found out, by further calls,
	// to be those that a service refuses.
	mostRefused = 8
)

// asking makes one call, and returns a result for each text or an error.
type asking func(ctx context.Context, texts []string) ([]Result, error)

// asked is a text to ask about, and where the answer goes.
type asked struct {
	text string
	out  *Result
}

// batches asks a service about messages, as many at a time as one call may hold.
//
// A service that refuses one text refuses the whole call, and does not say which it
// was. Cutting texts to what it takes is no way out: of the rest nobody could say
// that it is free of something. So the call is made again without the longest, and if
// that doesn't help, by halves, until the refused texts are alone.
type batches struct {
	*service

	call    asking
	refused []*Result
	why     error // of the first refusal
	taken   bool  // some text was not refused
}

// inBatches asks about each message.
func (s *service) inBatches(ctx context.Context, messages []Input, out []Result, call asking) error {
	b := batches{service: s, call: call}
	var texts []asked
	bytes := 0
	flush := func() (err error) {
		if len(texts) > 0 {
			_, err = b.judge(ctx, texts, len(texts)-1, false)
		}
		texts, bytes = texts[:0], 0
		return err
	}
	defer b.settle()
	for i := range messages {
		n := size(messages[i].Parts)
		if n > s.MaxText {
			s.unknown(&out[i])
			continue
		}
		text, _ := joined(messages[i].Parts)
		if strings.TrimSpace(text) == "" { // there is nothing in it, and services take it for a mistake
			s.absent(&out[i])
			continue
		}
		if len(texts) == mostTexts || bytes+n > s.MaxText {
			if err := flush(); err != nil {
				return err
			}
		}
		texts, bytes = append(texts, asked{text, &out[i]}), bytes+n
	}
	if err := flush(); err != nil {
		return err
	}
	return b.why
}

// settle has it remembered that refused texts are unknown, if the service took others:
// then it is the texts, and asking again would not help.
func (b *batches) settle() {
	if b.taken {
		for _, r := range b.refused {
			b.unknown(r)
		}
	}
}

// judge asks about texts, and if they are refused about those before cut and those
// behind it, unless it is known that they are. It reports whether all were taken.
func (b *batches) judge(ctx context.Context, texts []asked, cut int, known bool) (taken bool, err error) {
	if !known {
		taken, err = b.ask(ctx, texts)
		if taken || err != nil {
			return taken, err
		}
	}
	if len(texts) == 1 {
		b.refused = append(b.refused, texts[0].out)
		if len(b.refused) > mostRefused {
			return false, b.why
		}
		return false, nil
	}
	slices.SortStableFunc(texts, func(x, y asked) int { return cmp.Compare(len(x.text), len(y.text)) })
	taken, err = b.judge(ctx, texts[:cut], cut/2, false)
	if err != nil {
		return false, err
	}
	_, err = b.judge(ctx, texts[cut:], (len(texts)-cut)/2, taken)
	return false, err
}

// ask makes one call, and reports whether the service took the texts.
func (b *batches) ask(ctx context.Context, texts []asked) (taken bool, err error) {
	all := make([]string, len(texts))
	for i := range texts {
		all[i] = texts[i].text
	}
	results, err := b.call(ctx, all)
	switch {
	case errors.Is(err, ErrRefused):
		if b.why == nil {
			b.why = err
		}
		return false, nil
	case err != nil:
		return false, err
	default:
	}
	for i := range results {
		*texts[i].out = results[i]
	}
	b.taken = true
	return true, nil
}
