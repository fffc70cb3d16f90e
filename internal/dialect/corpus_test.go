package dialect

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what the code does into testdata/corpus")

// A case of the corpus is an exchange, in a file of sections that begin with "-- NAME --".
// Before the first is what it shows; a line "client: messages" says who speaks what. Its
// service speaks chat, and that of a chat client messages, unless a line "service: messages"
// says so. "model: claude-opus-4-6" is the service's model, where its name matters.
//
// Given: "client request", and one of "service answer" (or "service answer 429") and
// "service stream". Golden: "service request" or "refused", "warnings", "client answer",
// "client stream". In a stream given, "<cut>" is where the connection breaks, "<crlf>" makes
// all lines end in CR LF.
type corpusCase struct {
	name     string
	intro    string
	sections []section
}

type section struct{ name, text string }

const corpusDir = "testdata/corpus"

func readCorpus(tb testing.TB) []*corpusCase {
	tb.Helper()
	files, err := filepath.Glob(corpusDir + "/*.txt")
	require.NoError(tb, err)
	list := make([]*corpusCase, 0, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(tb, err)
		c := &corpusCase{name: strings.TrimSuffix(filepath.Base(file), ".txt")}
		for line := range strings.Lines(string(text)) {
			name, ok := strings.CutPrefix(strings.TrimSpace(line), "-- ")
			if name, ends := strings.CutSuffix(name, " --"); ok && ends {
				c.sections = append(c.sections, section{name: name})
			} else if n := len(c.sections); n > 0 {
				c.sections[n-1].text += line
			} else {
				c.intro += line
			}
		}
		list = append(list, c)
	}
	return list
}

func (c *corpusCase) get(name string) (text string, ok bool) {
	for _, s := range c.sections {
		if s.name == name {
			return s.text, true
		}
	}
	return "", false
}

// codecs says who speaks what.
func (c *corpusCase) codecs() (Client, Service) {
	var service Service = Chat()
	if c.line("service") == messagesName {
		service = Messages()
	}
	switch c.line("client") {
	case messagesName:
		return Messages(), service
	case responsesName:
		return Responses(), service
	default:
		return Chat(), Messages()
	}
}

// line is what a line of the introduction says; "" for none.
func (c *corpusCase) line(name string) string {
	for line := range strings.Lines(c.intro) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// exchange makes the case's exchange.
func (c *corpusCase) exchange() (*Exchange, error) {
	client, service := c.codecs()
	body, _ := c.get("client request")
	model := c.line("model")
	if model == "" {
		model = "upstream"
	}
	return NewExchange(client, service, []byte(body), Options{Model: model, ID: "0001", Created: 1760000000})
}

// play makes the golden sections.
func (c *corpusCase) play(t *testing.T) []section {
	t.Helper()
	x, err := c.exchange()
	if err != nil {
		return []section{{"refused", fmt.Sprintf("%T: %v\n", err, err)}}
	}
	out := []section{{"service request", indent(t, x.Body())}}
	if w := x.Warnings(); len(w) > 0 {
		var text strings.Builder
		for _, w := range w {
			fmt.Fprintf(&text, "%s: %s\n", w.Field, w.Reason)
		}
		out = append(out, section{"warnings", text.String()})
	}
	for _, s := range c.sections {
		kind, status, _ := strings.Cut(s.name, " answer")
		switch {
		case s.name == "service stream":
			require.True(t, x.Stream(), "the request has no stream")
			got, err := translate(x, c.stream(s.text), c.cut(s.text), nil)
			if err != nil {
				got += fmt.Sprintf("<broken: %v>\n", err)
			}
			out = append(out, section{"client stream", got})
		case kind == "service" && status == "":
			require.False(t, x.Stream(), "the request wants a stream")
			got, err := x.Answer([]byte(s.text))
			require.NoError(t, err)
			out = append(out, section{"client answer", indent(t, got)})
		case kind == "service":
			code, err := strconv.Atoi(strings.TrimSpace(status))
			require.NoError(t, err)
			f, code, body := x.Failure(code, nil, []byte(s.text))
			out = append(out, section{fmt.Sprintf("client answer %d %v", code, failureNames[f.Kind]), indent(t, body)})
		}
	}
	return out
}

var failureNames = map[FailureKind]string{
	FailUnknown: "unknown", FailRequest: "request", FailAuth: "auth", FailModel: "model", FailTooLarge: "too large",
	FailContext: "context", FailContent: "content", FailRate: "rate", FailQuota: "quota", FailOverloaded: "overloaded",
	FailServer: "server", FailTimeout: "timeout",
}

const (
	markCut  = "<cut>"
	markCRLF = "<crlf>\n"
)

func (*corpusCase) cut(text string) bool { return strings.Contains(text, markCut) }

func (*corpusCase) stream(text string) []byte {
	text, _, _ = strings.Cut(text, markCut)
	if rest, ok := strings.CutPrefix(text, markCRLF); ok {
		text = strings.ReplaceAll(rest, "\n", "\r\n")
	}
	return []byte(text)
}

// translate feeds a stream in pieces whose lengths next gives; all at once without.
func translate(x *Exchange, in []byte, cut bool, next func(left int) int) (string, error) {
	s := x.NewStream(nil)
	var out []byte
	var err error
	for len(in) > 0 && err == nil {
		n := len(in)
		if next != nil {
			n = next(n)
		}
		out, err = s.Feed(out, in[:n])
		in = in[n:]
	}
	if err == nil && !cut {
		out, err = s.Finish(out)
	}
	return string(out), err
}

func indent(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Indent(&b, text, "", "  "), "%s", text)
	return b.String() + "\n"
}

func isGolden(name string) bool {
	return !strings.HasPrefix(name, "client request") &&
		(strings.HasPrefix(name, "client ") || name == "service request" || name == "warnings" || name == "refused")
}

// TestCorpus plays each exchange. With -update what is written is to be read before it is
// committed: it is the promise to clients.
func TestCorpus(t *testing.T) {
	cases := readCorpus(t)
	directions := map[string]int{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			client, _ := c.codecs()
			directions[client.Name()]++
			got := c.play(t)
			if *update {
				c.write(t, got)
				return
			}
			want := slices.DeleteFunc(slices.Clone(c.sections), func(s section) bool { return !isGolden(s.name) })
			require.Equal(t, sectionNames(want), sectionNames(got))
			for i := range want {
				assert.Equal(t, want[i].text, got[i].text, want[i].name)
			}
		})
	}
	assert.GreaterOrEqual(t, directions["chat"], 30)
	assert.GreaterOrEqual(t, directions["messages"], 30)
	assert.GreaterOrEqual(t, directions["responses"], 8)
}

func sectionNames(list []section) []string {
	names := make([]string, 0, len(list))
	for _, s := range list {
		names = append(names, s.name)
	}
	return names
}

// write keeps what is given and puts each golden section behind what it follows from.
func (c *corpusCase) write(t *testing.T, golden []section) {
	t.Helper()
	var b strings.Builder
	b.WriteString(c.intro)
	put := func(s section) { fmt.Fprintf(&b, "-- %s --\n%s", s.name, s.text) }
	for _, s := range c.sections {
		if isGolden(s.name) {
			continue
		}
		put(s)
		asked := s.name == "client request"
		for _, g := range golden {
			if asked == (g.name == "service request" || g.name == "warnings" || g.name == "refused") {
				put(g)
			}
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(corpusDir, c.name+".txt"), []byte(b.String()), 0o600))
}

// TestCorpusSplits feeds each stream of the corpus byte by byte and in random pieces.
func TestCorpusSplits(t *testing.T) {
	streams := 0
	for _, c := range readCorpus(t) {
		in, ok := c.get("service stream")
		x, err := c.exchange()
		if !ok || err != nil {
			continue
		}
		streams++
		want, wantErr := translate(x, c.stream(in), c.cut(in), nil)
		rnd := rand.New(rand.NewPCG(1, 2))
		for _, next := range []func(int) int{
			func(int) int { return 1 },
			func(n int) int { return 1 + rnd.IntN(n) },
			func(n int) int { return min(n, 1+rnd.IntN(7)) },
		} {
			got, err := translate(x, c.stream(in), c.cut(in), next)
			require.Equal(t, wantErr, err, c.name)
			require.Equal(t, want, got, c.name)
		}
	}
	assert.Greater(t, streams, 15)
}
