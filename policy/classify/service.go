package classify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/policy"
)

// The defaults of an [Endpoint].
const (
	DefaultServiceText     = 256 << 10
	DefaultServiceResponse = 1 << 20
	DefaultServiceFailures = 5
	DefaultServiceCooldown = 5 * time.Second
)

// Why a service was not asked, or not believed. Whoever runs the gateway sees them.
var (
	// ErrCooling: the service failed several times in a row, and is left alone for a
	// while.
	ErrCooling = errors.New("the service failed repeatedly and is not asked for now")
	// ErrAnswer: the service answered something else than it should.
	ErrAnswer = errors.New("the service's answer is not what was expected")
	// ErrRefused: the service refused a text, asked about it alone. Its tags are unknown,
	// those of other texts are not. It comes together with [ErrAnswer].
	ErrRefused = errors.New("it refuses a text, such as one that is longer than it takes: set Endpoint.MaxText, in bytes, below that")
)

// Endpoint is a service that classifies over HTTP. It is asked once, without
// retries; redirects are not followed, as they would carry prompts elsewhere.
type Endpoint struct {
	// URL is where to POST. It is required.
	URL string
	// Header is sent with each request, such as for authorization.
	Header http.Header
	// Client is required. Its owner closes its idle connections in the end. Timeouts
	// are those of the [Member], or of the context.
	Client *http.Client
	// MaxText bounds the bytes of text of one call; 0 means [DefaultServiceText]. A
	// message that is longer is not sent, and makes the tags unknown.
	MaxText int
	// MaxResponse bounds the bytes of an answer; 0 means [DefaultServiceResponse].
	MaxResponse int64
	// Failures in a row make the service rest for Cooldown, after which one call
	// tries again. 0 means [DefaultServiceFailures] and [DefaultServiceCooldown].
	Failures int
	Cooldown time.Duration
	// Now is the clock, nil means [time.Now].
	Now func() time.Time
}

// Rule makes a tag of what a service finds.
type Rule struct {
	// Tag is required.
	Tag string
	// Labels are the service's own names for it, one of which is enough: categories,
	// classes or entity types. Empty means whatever it finds.
	Labels []string
	// MinScore is the least score that counts, from 0 to 1. 0 leaves it to the
	// service.
	MinScore float64
}

// service is an Endpoint at work.
type service struct {
	Endpoint

	rules []Rule
	tags  []string

	mu       sync.Mutex
	failures int       // in a row
	until    time.Time // the service rests
	trying   bool      // a call finds out whether it works again
}

func newService(e Endpoint, rules []Rule) (*service, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("classify: Endpoint.URL must be an http or https URL") // not quoted: it may hold a password
	}
	if e.Client == nil {
		return nil, errors.New("classify: Endpoint.Client is nil")
	}
	if len(rules) == 0 {
		return nil, errors.New("classify: there are no Rules, so that no tag would be produced")
	}
	s := &service{Endpoint: e, rules: slices.Clone(rules)}
	client := *e.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.Client = &client
	s.Header = e.Header.Clone()
	if s.MaxText <= 0 {
		s.MaxText = DefaultServiceText
	}
	if s.MaxResponse <= 0 {
		s.MaxResponse = DefaultServiceResponse
	}
	if s.Failures <= 0 {
		s.Failures = DefaultServiceFailures
	}
	if s.Cooldown <= 0 {
		s.Cooldown = DefaultServiceCooldown
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	for _, r := range rules {
		if r.Tag == "" || r.MinScore < 0 || r.MinScore > 1 {
			return nil, errors.New("classify: a Rule needs a Tag, and a MinScore from 0 to 1")
		}
		if !slices.Contains(s.tags, r.Tag) {
			s.tags = append(s.tags, r.Tag)
		}
	}
	return s, nil
}

// post asks the service and decodes its answer.
func (s *service) post(ctx context.Context, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	return s.call(ctx, http.MethodPost, s.URL, body, answer)
}

// get asks the service at another address of it.
func (s *service) get(ctx context.Context, url string, answer any) error {
	return s.call(ctx, http.MethodGet, url, nil, answer)
}

func (s *service) call(ctx context.Context, method, url string, body []byte, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	if !s.allowed() {
		return ErrCooling
	}
	err, blame := s.try(req, answer)
	s.ended(err == nil, blame)
	return err
}

// statusesOfRefusal say that there is something about this very text.
var statusesOfRefusal = [...]int{ //nolint:gochecknoglobals // an immutable table
	http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
}

// try makes one call. blame: the service is at fault if it failed.
func (s *service) try(req *http.Request, answer any) (err error, blame bool) { //nolint:revive // the blame is of the error
	if s.Header != nil {
		req.Header = s.Header.Clone()
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.Client.Do(req)
	if err != nil {
		return withoutURL(err), !errors.Is(req.Context().Err(), context.Canceled)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, s.MaxResponse+1))
	switch {
	case err != nil:
		return withoutURL(err), !errors.Is(req.Context().Err(), context.Canceled)
	case slices.Contains(statusesOfRefusal[:], resp.StatusCode):
		return fmt.Errorf("%w: status %d: %w", ErrAnswer, resp.StatusCode, ErrRefused), false
	case resp.StatusCode != http.StatusOK:
		const ours = 4 // of a status in the 400s
		return fmt.Errorf("%w: status %d", ErrAnswer, resp.StatusCode),
			resp.StatusCode/100 != ours || resp.StatusCode == http.StatusTooManyRequests
	case int64(len(text)) > s.MaxResponse:
		return fmt.Errorf("%w: it is longer than %d bytes", ErrAnswer, s.MaxResponse), true
	case json.Unmarshal(text, answer) != nil: // its error may quote
		return fmt.Errorf("%w: not JSON of that form", ErrAnswer), true
	default:
		return nil, false
	}
}

// withoutURL takes the URL out of an error: it may hold a key.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// allowed reports whether the service may be asked now.
func (s *service) allowed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failures < s.Failures:
		return true
	case s.trying || s.Now().Before(s.until):
		return false
	default:
		s.trying = true
		return true
	}
}

// ended notes how a call went. One that failed by no fault of the service says
// nothing about it.
func (s *service) ended(ok, blame bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trying = false
	switch {
	case ok:
		s.failures = 0
	case blame:
		s.failures = min(s.failures+1, s.Failures)
		s.until = s.Now().Add(s.Cooldown)
	default:
	}
}

// joined is the text of a message, its parts on lines of their own, and where each
// part begins.
func joined(parts []Part) (text string, starts []int) {
	var b bytes.Buffer
	for i := range parts {
		if i > 0 {
			b.WriteByte('\n')
		}
		starts = append(starts, b.Len())
		b.Write(parts[i].Text)
	}
	return b.String(), starts
}

// unknown says of all tags that nobody can tell, which is to be remembered.
func (s *service) unknown(out *Result) {
	for _, tag := range s.tags {
		out.Set(tag, policy.TagUnknown)
	}
}

// absent says so of all tags, before something is found.
func (s *service) absent(out *Result) {
	for _, tag := range s.tags {
		out.Set(tag, policy.TagAbsent)
	}
}

// found sets a rule's tag and counts what was found.
func found(out *Result, r *Rule, label string) {
	out.Set(r.Tag, policy.TagPresent)
	out.finding(r.Tag, Kind(label)).Count++
}

// size is the bytes of a message's text.
func size(parts []Part) int {
	n := len(parts)
	for i := range parts {
		n += len(parts[i].Text)
	}
	return n
}
