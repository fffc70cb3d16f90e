//go:build e2e

package prompt_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/e2e/prompt/requests"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// mediaRequests to each model; KVSTEER_E2E_MEDIA overrides.
const mediaRequests = 120

// begun counts how prompts with media went.
type begun struct {
	equal   map[prompt.API]int
	films   int // of them with a video
	tokens  int // of beginnings that are equal, of
	of      int // tokens in front of the engine's first placeholder
	refused int
	passed  map[string]int
	texts   []string
}

func (c *begun) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d begin as the engine's (chat %d, messages %d, responses %d; %d with films), %d of %d tokens before the first placeholder; %d refused by the engine",
		c.equal[prompt.Chat]+c.equal[prompt.Messages]+c.equal[prompt.Responses],
		c.equal[prompt.Chat], c.equal[prompt.Messages], c.equal[prompt.Responses], c.films, c.tokens, c.of, c.refused)
	for why, n := range c.passed {
		fmt.Fprintf(&b, "\n      %d × %s", n, why)
	}
	return b.String()
}

// mediaModels are models that take images, as directories of vLLM's and flags.
func mediaModels(t *testing.T) []subject {
	t.Helper()
	root := script(t, "models.sh", "media")
	found, err := filepath.Glob(filepath.Join(root, "*", "tokenizer.json"))
	require.NoError(t, err)
	var all []subject
	for _, f := range found {
		dir := filepath.Dir(f)
		s := subject{name: filepath.Base(dir), model: local.Model{Dir: dir}}
		all = append(all, s)
		if s.name == "llava" {
			s.name += "+interleaved"
			s.model.InterleaveMedia = true
			s.flags = []string{"--interleave-mm-strings"}
			all = append(all, s)
		}
	}
	if only := cmp.Or(os.Getenv("KVSTEER_E2E_MEDIA_MODELS"), os.Getenv("KVSTEER_E2E_MODELS")); only != "" {
		all = slices.DeleteFunc(all, func(s subject) bool { return !slices.Contains(strings.Split(only, ","), s.name) })
	}
	require.NotEmpty(t, all)
	return all
}

// TestMedia compares the beginnings of prompts with images and videos, as far as they
// are computed here, with what vLLM's render server makes of the requests.
func TestMedia(t *testing.T) {
	script(t, "../vllm/setup.sh")
	all := mediaModels(t)
	url := renderServer(t, "media", all)
	n, seed := env("KVSTEER_E2E_MEDIA", mediaRequests), uint64(env("KVSTEER_E2E_SEED", 1))
	for i, sub := range all {
		t.Run(sub.name, func(t *testing.T) {
			src, err := local.New(local.Options{Models: map[string]local.Model{modelName: sub.model}})
			require.NoError(t, err)
			defer func() { _ = src.Close() }()
			s := &server{url: url + "/" + sub.name, http: &http.Client{Timeout: 5 * time.Minute}}
			g := requests.New(seed+uint64(i)*1000, modelName)
			g.Media, g.Video = true, !strings.HasPrefix(sub.name, "llava") && sub.name != "gemma3" && sub.name != "llama4"
			c := &begun{equal: map[prompt.API]int{}, passed: map[string]int{}}
			captured := newMediaCapture(sub)
			for done := 0; done < n; {
				r := g.Next()
				if g.IntN(3) == 0 {
					r.Body = g.Mutate(r.Body)
				}
				q := &prompt.Request{API: r.API, Model: modelName, Body: r.Body}
				if _, err := src.Prefix(t.Context(), q); errors.Is(err, prompt.ErrNotApplicable) {
					continue // no media
				}
				done++
				captured.add(t, s, r)
				if diff := c.one(t, src, s, r); diff != "" {
					t.Error(diff)
				}
			}
			captured.write(t)
			t.Logf("%-12s %s", sub.name, c)
			for _, text := range c.texts {
				t.Logf("passed on: %s", text)
			}
			require.Positive(t, c.equal[prompt.Chat])
		})
	}
}

// one compares one request and returns a difference, "" if there is none.
func (c *begun) one(t *testing.T, src *local.Source, s *server, r requests.Request) string {
	t.Helper()
	q := &prompt.Request{API: r.API, Model: modelName, Body: r.Body}
	_, whole := src.Encode(t.Context(), q)
	require.Error(t, whole, "%s", r.Body)
	got, localErr := src.Prefix(t.Context(), q)
	want, places, err := s.renderMedia(t, r)
	var no refused
	switch {
	case errors.As(err, &no):
		c.refused++
	case err != nil:
		require.NoError(t, err, "%s", r.Body)
	case localErr != nil:
		c.passed[localErr.Error()]++
		if len(c.texts) < 5 {
			c.texts = append(c.texts, fmt.Sprintf("%v: %s", localErr, short(r.Body)))
		}
	case len(places) == 0 || len(got.Tokens) > places[0] || !slices.Equal(got.Tokens, want[:len(got.Tokens)]):
		return fmt.Sprintf("%s: %d ids are not the first of the engine's %d, which has media at %v:\n%v\n%v\n%s",
			r.API, len(got.Tokens), len(want), places, got.Tokens, want, r.Body)
	default:
		c.equal[r.API]++
		if bytes.Contains(r.Body, []byte(`"video_url"`)) {
			c.films++
		}
		c.tokens += len(got.Tokens)
		c.of += places[0]
	}
	return ""
}

// renderMedia returns the ids of a prompt and where its media are.
func (s *server) renderMedia(t *testing.T, r requests.Request) (ids []uint32, places []int, err error) {
	t.Helper()
	reply, err := s.post(t.Context(), r.API.Path()+"/render", r.Body)
	var no refused
	if err != nil && !errors.As(err, &no) {
		reply, err = s.post(t.Context(), r.API.Path()+"/render", r.Body) // a connection may be reset once
	}
	if err != nil {
		return nil, nil, err
	}
	var v struct {
		IDs      []uint32 `json:"token_ids"`
		Features struct {
			Placeholders map[string][]struct {
				Offset int `json:"offset"`
			} `json:"mm_placeholders"`
		} `json:"features"`
	}
	if formErr := json.Unmarshal(reply, &v); formErr != nil {
		return nil, nil, formErr
	}
	for _, of := range v.Features.Placeholders {
		for _, p := range of {
			places = append(places, p.Offset)
		}
	}
	slices.Sort(places)
	return v.IDs, places, nil
}

// newMediaCapture records what the engine makes of the small model's requests.
func newMediaCapture(s subject) *capture {
	dir := os.Getenv("KVSTEER_E2E_CAPTURE")
	if dir == "" || s.name != "small" {
		return nil
	}
	return &capture{path: filepath.Join(dir, "media.jsonl.gz")}
}
