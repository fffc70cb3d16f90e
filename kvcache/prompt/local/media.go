package local

import (
	"context"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// medium is what a part of a message is, if it is no text.
type medium uint8

const (
	noMedium medium = iota
	image
	audio
	video
	numMedia
)

// String is the type that templates see.
func (m medium) String() string {
	return [numMedia]string{"text", "image", "audio", "video"}[m]
}

// mediaRules say where vLLM 0.32 puts the media of a model type. It renders and
// tokenizes a prompt with one placeholder for each input, then replaces the ids of
// placeholders by as many as the input takes, which only the model's processor can
// tell. So ids before the first placeholder are the prompt's, provided that
// placeholders are replaced by id: where an id is missing, vLLM decodes the prompt
// and tokenizes it anew.
type mediaRules struct {
	// shown is put before a message's text for templates that take strings.
	shown [numMedia]string
	// token is the placeholder, whose id is replaced; "" for media that the type
	// does not take.
	token [numMedia]string
	// named are the special tokens that say otherwise, if tokenizer_config.json has
	// them.
	named [numMedia]string
	// opening are tokens that may be replaced along with a placeholder after them.
	opening []string
	// indexed: the placeholder is the token that config.json gives the id of.
	indexed bool
	// newlines: line feeds on both sides of where a replacement begins become one
	// token, so that those at the end are not sure.
	newlines bool
}

const (
	qwenImage = "<|image_pad|>"
	qwenVideo = "<|video_pad|>"
)

func qwenMedia() *mediaRules {
	const start, end = "<|vision_start|>", "<|vision_end|>"
	return &mediaRules{
		shown:   [numMedia]string{image: start + qwenImage + end, video: start + qwenVideo + end},
		token:   [numMedia]string{image: qwenImage, video: qwenVideo},
		named:   [numMedia]string{image: "image_token", video: "video_token"},
		opening: []string{start},
	}
}

func llavaMedia() *mediaRules {
	return &mediaRules{
		shown: [numMedia]string{image: "<image>"}, token: [numMedia]string{image: "<image>"}, indexed: true,
	}
}

func glmMedia() *mediaRules {
	const picture, film = "<|begin_of_image|>", "<|begin_of_video|>"
	return &mediaRules{
		shown:   [numMedia]string{image: picture + "<|image|><|end_of_image|>", video: film + "<|video|><|end_of_video|>"},
		token:   [numMedia]string{image: "<|image|>", video: "<|video|>"},
		named:   [numMedia]string{image: "image_token", video: "video_token"},
		opening: []string{picture, film},
	}
}

// mediaFamilies are the model types whose beginnings have been compared with vLLM's,
// and those that have the same processor there: llava_next and the kinds with experts.
//
//nolint:gochecknoglobals // a table
var mediaFamilies = map[string]*mediaRules{
	"qwen2_vl": qwenMedia(), "qwen2_5_vl": qwenMedia(), "qwen3_vl": qwenMedia(), "qwen3_vl_moe": qwenMedia(),
	"qwen3_5": qwenMedia(), "qwen3_5_moe": qwenMedia(),
	"llava": llavaMedia(), "llava_next": llavaMedia(),
	"internvl": {
		shown: [numMedia]string{image: "<IMG_CONTEXT>", video: "<video>"},
		token: [numMedia]string{image: "<IMG_CONTEXT>", video: "<video>"},
		named: [numMedia]string{image: "context_image_token", video: "video_token"},
	},
	"llama4": {shown: [numMedia]string{image: "<|image|>"}, token: [numMedia]string{image: "<|image|>"}},
	"glm4v":  glmMedia(), "glm4v_moe": glmMedia(),
	"gemma3": {
		shown: [numMedia]string{image: "<start_of_image>"}, token: [numMedia]string{image: "<start_of_image>"},
		named: [numMedia]string{image: "boi_token"}, newlines: true,
	},
}

// mediaTokens are the ids by which a model's placeholders are found.
type mediaTokens struct {
	rules *mediaRules
	// id is the placeholder's, known if the tokenizer has it as one token.
	id    [numMedia]uint32
	known [numMedia]bool
	// ends are ids that end what is sure: placeholders and what opens them.
	ends []uint32
}

// mediaOf finds the placeholders of a model, nil if its type has none that are known.
func (a *assets) mediaOf(config *modelConfig) *mediaTokens {
	rules := mediaFamilies[config.ModelType]
	if rules == nil {
		return nil
	}
	m := &mediaTokens{rules: rules}
	for k := image; k < numMedia; k++ {
		token := rules.token[k]
		for _, s := range a.specials {
			if s.name == rules.named[k] && token != "" {
				token = s.token.Content
			}
		}
		m.id[k], m.known[k] = a.oneToken(token)
	}
	if rules.indexed {
		index := config.ImageTokenIndex
		if index == nil {
			index = config.ImageTokenID
		}
		if m.known[image] = index != nil; index != nil {
			m.id[image] = *index
		}
	}
	for k := image; k < numMedia; k++ {
		if m.known[k] {
			m.ends = append(m.ends, m.id[k])
		}
	}
	for _, token := range rules.opening {
		if id, known := a.oneToken(token); known {
			m.ends = append(m.ends, id)
		}
	}
	return m
}

// oneToken is the id of a text that is one token.
func (a *assets) oneToken(text string) (uint32, bool) {
	if text == "" {
		return 0, false
	}
	ids, err := a.tokenizer.Encode(nil, text, false)
	if err != nil || len(ids) != 1 {
		return 0, false
	}
	spelled, found := a.tokenizer.Token(ids[0])
	return ids[0], found && spelled == text
}

// perMedium is how many tokens an input is taken for: LLaVA-1.5's 24 x 24 patches.
const perMedium = 576

// Prefix implements [prompt.Prefixer]: of a request with images, audio or video it
// computes the ids up to the first of them.
func (s *Source) Prefix(ctx context.Context, r *prompt.Request) (prompt.Encoding, error) {
	a, o, err := s.find(r)
	if err != nil {
		return prompt.Encoding{}, err
	}
	return a.prefix(ctx, r.API, o)
}

func (a *assets) prefix(ctx context.Context, api prompt.API, o jsonscan.Object) (prompt.Encoding, error) {
	q, err := a.query(api, o)
	if err != nil || a.model.SGLang {
		return prompt.Encoding{}, prompt.ErrNotApplicable // Encode says why
	}
	items, some := q.media()
	switch {
	case !some:
		return prompt.Encoding{}, prompt.ErrNotApplicable
	case q.cut.any: // of what the prompt grows to
		return prompt.Encoding{}, errTruncation
	}
	ids, err := a.placed(ctx, q, &items)
	if err != nil {
		return prompt.Encoding{}, err
	}
	sure, err := a.media.before(ids, &items)
	if err != nil {
		return prompt.Encoding{}, err
	}
	if a.media.rules.newlines {
		sure = a.steady(ids[:sure])
	}
	if sure == 0 {
		return prompt.Encoding{}, errEmpty
	}
	out := prompt.Encoding{
		Source: prompt.SourcePrefix, Assets: a.hash, Tokens: slices.Clone(ids[:sure]), Count: len(ids),
	}
	for _, n := range items {
		out.Count += n * perMedium
	}
	return out, nil
}

// placed returns the ids of the conversation with a placeholder for each of the items.
func (a *assets) placed(ctx context.Context, q *query, items *[numMedia]int) ([]uint32, error) {
	if err := a.takes(items); err != nil {
		return nil, err
	}
	if err := a.show(q); err != nil {
		return nil, err
	}
	return a.rendered(ctx, q)
}

// takes reports why the model's prompts with these media can't be begun.
func (a *assets) takes(items *[numMedia]int) error {
	if a.media == nil {
		return errPlaceholder
	}
	for k, n := range items {
		if n > 0 && !a.media.known[k] {
			return errPlaceholder
		}
	}
	return nil
}

// media counts the conversation's parts that are no text.
func (q *query) media() (items [numMedia]int, some bool) {
	for i := range q.messages {
		for j := range q.messages[i].parts {
			if k := q.messages[i].parts[j].medium; k != noMedium {
				items[k]++
				some = true
			}
		}
	}
	return items, some
}

// before is the number of ids in front of the first placeholder. Every input must
// have one.
func (m *mediaTokens) before(ids []uint32, items *[numMedia]int) (int, error) {
	sure := len(ids)
	var found [numMedia]int
	for i, id := range ids {
		if !slices.Contains(m.ends, id) {
			continue
		}
		sure = min(sure, i)
		for k := range found {
			if m.known[k] && id == m.id[k] {
				found[k]++
			}
		}
	}
	for k, n := range items {
		if found[k] < n {
			return 0, errPlaceholder
		}
	}
	return sure, nil
}

// steady is how many of ids stay as they are when line feeds beside each other and
// at the end are made into one token.
func (a *assets) steady(ids []uint32) int {
	before := false
	for i, id := range ids {
		feeds := a.isLineFeeds(id)
		if feeds && before {
			return i - 1
		}
		before = feeds
	}
	if before {
		return len(ids) - 1
	}
	return len(ids)
}

func (a *assets) isLineFeeds(id uint32) bool {
	text, found := a.tokenizer.Token(id)
	return found && strings.Trim(text, "\n") == ""
}

// show puts placeholders into the text of messages, for a template that takes
// strings.
func (a *assets) show(q *query) error {
	t := a.template(q.withTools(a))
	if t == nil {
		return errNoTemplate
	}
	if t.parts {
		return nil
	}
	for i := range q.messages {
		m := &q.messages[i]
		if !slices.ContainsFunc(m.parts, func(p part) bool { return p.medium != noMedium }) {
			continue
		}
		if m.role == roleSystem {
			m.stripBilling()
		}
		text, err := m.shown(a.media.rules, a.model.InterleaveMedia)
		if err != nil {
			return err
		}
		m.setText(text)
	}
	return nil
}

// shown is the content of a message with media as one text: placeholders, unless
// the text has them itself, then the text.
func (m *message) shown(rules *mediaRules, interleave bool) (string, error) {
	var texts []string
	var order []medium
	var items [numMedia]int
	for i := range m.parts {
		p := &m.parts[i]
		switch {
		case p.medium == noMedium && interleave && strings.HasPrefix(p.text, "<##"):
			return "", errForm // what the engine itself marks places with
		case p.medium == noMedium:
			if p.text != "" {
				texts = append(texts, p.text)
			}
			continue
		case rules.shown[p.medium] == "":
			return "", errPlaceholder
		case interleave:
			texts = append(texts, rules.shown[p.medium])
		default:
		}
		if items[p.medium]++; items[p.medium] == 1 {
			order = append(order, p.medium)
		}
	}
	text := strings.Join(texts, "\n")
	var all []string
	for _, k := range order {
		missing := items[k] - strings.Count(text, rules.shown[k])
		if missing < 0 {
			return "", errForm // the engine refuses it
		}
		for range missing {
			all = append(all, rules.shown[k])
		}
	}
	if text != "" {
		all = append(all, text)
	}
	return strings.Join(all, "\n"), nil
}
