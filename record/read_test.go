package record_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/record"
)

const header = `{"kvsteer_log":{"version":1,"run":"0011223344556677","created":"2026-01-02T03:04:05Z","new":[1]},"more":true}` + "\n"

// kinds says in a word what each entry is.
func kinds(t *testing.T, log string) []string {
	t.Helper()
	var all []string
	var in io.Reader = strings.NewReader(log)
	if len(log) < 1<<20 {
		in = iotest.OneByteReader(in)
	}
	require.NoError(t, record.Read(in, func(e *record.Entry) error {
		switch {
		case e.Header != nil:
			all = append(all, "header")
		case e.Damage != "":
			all = append(all, e.Damage)
		case e.Decision != nil:
			all = append(all, "decision")
		case e.Outcome != nil:
			all = append(all, "outcome")
		case e.Lost != nil:
			all = append(all, "lost")
		default:
			all = append(all, "nothing")
		}
		return nil
	}))
	return all
}

func TestReadIsTolerant(t *testing.T) {
	const decision = `{"at":"2026-01-02T03:04:05Z","decision":{"id":1,"chosen":0,"candidates":[{"name":"a","trust":"exact","new":{}}],"new":1},"new":[]}`
	for name, c := range map[string]struct {
		log  string
		want []string
	}{
		"nothing":            {"", nil},
		"blank":              {"\n\n", nil},
		"header":             {header, []string{"header"}},
		"unknown fields":     {header + decision + "\n", []string{"header", "decision"}},
		"windows":            {strings.ReplaceAll(header, "\n", "\r\n") + decision + "\r\n", []string{"header", "decision"}},
		"no last newline":    {header + decision, []string{"header", "decision"}},
		"torn":               {header + decision[:100], []string{"header", record.DamageTorn}},
		"torn in the middle": {header + decision[:100] + "\n" + header + decision + "\n", []string{"header", record.DamageJSON, "header", "decision"}},
		"torn header":        {header[:30] + "\n" + header + decision, []string{record.DamageJSON, "header", "decision"}},
		"unknown kind":       {header + `{"at":"2026-01-02T03:04:05Z","new":{}}` + "\n" + decision, []string{"header", record.DamageJSON, "decision"}},
		"no object":          {header + "17\n", []string{"header", record.DamageJSON}},
		"empty decision":     {header + `{"decision":{}}`, []string{"header", record.DamageJSON}},
		"features only":      {header + `{"decision":{"features":[{}]}}`, []string{"header", record.DamageJSON}},
		"chosen":             {header + `{"decision":{"id":1,"chosen":1,"candidates":[{}]}}`, []string{"header", record.DamageNumbers}},
		"nobody":             {header + `{"decision":{"id":1,"chosen":-1},"rejected":"limited"}`, []string{"header", "decision"}},
		"below nobody":       {header + `{"decision":{"id":1,"chosen":-2,"candidates":[{}]}}`, []string{"header", record.DamageNumbers}},
		"features":           {header + `{"decision":{"id":1,"candidates":[{}],"features":[{},{}]}}`, []string{"header", record.DamageNumbers}},
		"shadow":             {header + `{"decision":{"id":1,"candidates":[{}],"shadows":[{"chosen":1}]}}`, []string{"header", record.DamageNumbers}},
		"prefill":            {header + `{"decision":{"id":1,"candidates":[{}],"prefill":{"chosen":-1}}}`, []string{"header", record.DamageNumbers}},
		"negative":           {header + `{"decision":{"id":1,"candidates":[{"in_flight":-1}]}}`, []string{"header", record.DamageNumbers}},
		"outcome":            {header + `{"outcome":{"decision":1,"ttft_ns":1}}` + "\n" + `{"lost":{"entries":2,"reason":"x"}}`, []string{"header", "outcome", "lost"}},
		"long":               {header + `{"x":"` + strings.Repeat("y", record.MaxLine) + `"}` + "\n" + decision, []string{"header", record.DamageLong, "decision"}},
		"long and torn":      {header + strings.Repeat("y", record.MaxLine+2), []string{"header", record.DamageLong}},
		"parts":              {header + `{"decision":{"candidates":[` + strings.Repeat("{},", 1<<18+1) + `{}]}}` + "\n" + decision, []string{"header", record.DamageLong, "decision"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, kinds(t, c.log))
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		log  string
		want error
		says string
	}{
		"another file":      {"hello\nworld\n", record.ErrNotLog, ""},
		"one line":          {"hello", record.ErrNotLog, ""},
		"a log of outcomes": {`{"decision":{"id":1,"candidates":[{}]},"ttft_s":1}` + "\n", record.ErrNotLog, "no header"},
		"the end of a log":  {`{"outcome":{"decision":1}}` + "\n" + header, record.ErrNotLog, ""},
		"a newer version":   {`{"kvsteer_log":{"version":2,"created":17}}` + "\n", record.ErrVersion, "line 1: record: a log of another version: 2, not 1; a newer kvsteer reads it"},
		"an older version":  {header + `{"kvsteer_log":{"version":0}}` + "\n", record.ErrVersion, "line 2: record: a log of another version: 0, not 1; read it with the kvsteer that wrote it"},
	} {
		t.Run(name, func(t *testing.T) {
			err := record.Read(strings.NewReader(c.log), func(*record.Entry) error { return nil })
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.says)
		})
	}
	boom := errors.New("boom")
	require.Equal(t, boom, record.Read(strings.NewReader(header), func(*record.Entry) error { return boom }))
	err := record.Read(io.MultiReader(strings.NewReader(header), iotest.ErrReader(boom)), func(*record.Entry) error { return nil })
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, "line 2")
}
