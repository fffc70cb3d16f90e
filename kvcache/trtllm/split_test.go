package trtllm

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	type id struct {
		id   uint64
		rank int
	}
	for name, c := range map[string]struct {
		text string
		want []id
		how  end
		bad  int
	}{
		"empty":              {"[]", nil, endComplete, 0},
		"spaces":             {" \n[ \t] \r\n", nil, endComplete, 0},
		"one":                {`[{"event_id":7}]`, []id{{7, -1}}, endComplete, 0},
		"order and ranks":    {"[ {\"event_id\":0,\"attention_dp_rank\":1} ,\n{\"attention_dp_rank\":null,\"event_id\":0}]", []id{{0, 1}, {0, -1}}, endComplete, 0},
		"64 bits":            {`[{"event_id":18446744073709551615}]`, []id{{1<<64 - 1, -1}}, endComplete, 0},
		"inner ids":          {`[{"data":{"event_id":3},"event_id":4}]`, []id{{4, -1}}, endComplete, 0},
		"brackets in text":   {`[{"s":"]}\"[{","event_id":4},{"event_id":5}]`, []id{{4, -1}, {5, -1}}, endComplete, 0},
		"backslashes":        {`[{"s":"\\","event_id":4},{"event_id":5}]`, []id{{4, -1}, {5, -1}}, endComplete, 0},
		"escaped key":        {`[{"\u0065vent_id":4}]`, []id{{4, -1}}, endComplete, 0},
		"no events":          {`[1,null,"x",[],{},true]`, nil, endComplete, 6},
		"bad id":             {`[{"event_id":1.0},{"event_id":-1},{"event_id":"1"},{"event_id":null},{"event_id":2}]`, []id{{2, -1}}, endComplete, 4},
		"bad rank":           {`[{"event_id":1,"attention_dp_rank":-1},{"event_id":1,"attention_dp_rank":"0"},{"event_id":1,"attention_dp_rank":1e9}]`, nil, endComplete, 3},
		"broken inside":      {`[{"event_id":1,},{"event_id":2}]`, []id{{2, -1}}, endComplete, 1},
		"cut in an event":    {`[{"event_id":1},{"event_id":2`, []id{{1, -1}}, endCutOff, 0},
		"cut after an event": {`[{"event_id":1}`, nil, endCutOff, 0},
		"cut after a comma":  {`[{"event_id":1},`, []id{{1, -1}}, endCutOff, 0},
		"cut in a text":      {`[{"event_id":1},{"s":"abc\`, []id{{1, -1}}, endCutOff, 0},
		"no comma":           {`[{"event_id":1}{"event_id":2}]`, nil, endCutOff, 0},
		"only begun":         {`[`, nil, endCutOff, 0},
		"comma first":        {`[,{"event_id":1}]`, nil, endCutOff, 0},
		"comma last":         {`[{"event_id":1},]`, []id{{1, -1}}, endCutOff, 0},
		"nothing":            {``, nil, endNoList, 0},
		"null":               {`null`, nil, endNoList, 0},
		"object":             {`{"event_id":1}`, nil, endNoList, 0},
		"page":               {`<html>[]</html>`, nil, endNoList, 0},
		"deep":               {"[" + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "]", nil, endComplete, 1},
	} {
		var got []id
		how, bad := split([]byte(c.text), func(ev event) { got = append(got, id{ev.id, ev.rank}) })
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.how, how, name)
		assert.Equal(t, c.bad, bad, name)
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	p := payload([]byte(`{"event_id":9007199254740993}`), -5)
	assert.Equal(t, `{"kvsteer_epoch":-5,"event_id":9007199254740993}`, string(p))
	assert.Equal(t, int64(-5), epochOf(p))
	for _, text := range []string{"", "{", `{"event_id":1}`, `{"kvsteer_epoch":x,`, `{"kvsteer_epoch":`} {
		assert.Zero(t, epochOf([]byte(text)), text)
	}
}

// Whatever the answer: of a list that encoding/json reads, exactly the numbered
// objects come out, unchanged and in order; and what comes out of any other text
// is a numbered object.
func FuzzSplit(f *testing.F) {
	text, err := os.ReadFile("../wire/testdata/trtllm.json")
	require.NoError(f, err)
	f.Add(text)
	f.Add(text[:len(text)/2])
	for _, seed := range []string{
		`[]`, `[1,null,"x",{}]`, `[{"event_id":0,"attention_dp_rank":1},{"event_id":18446744073709551615}]`,
		`[{"s":"]}\"[{\\","event_id":4}`, `[{"event_id":1},{"event_id":2`, `{"event_id":1}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got []event
		how, bad := split(body, func(ev event) { got = append(got, ev) })
		for _, ev := range got {
			p := payload(ev.raw, 1)
			if !json.Valid(p) || !bytes.HasSuffix(p, ev.raw[1:]) {
				t.Fatalf("payload %q of %q", p, ev.raw)
			}
			if ev.rank < -1 || ev.rank >= maxRanks {
				t.Fatalf("rank %d", ev.rank)
			}
			var d Decoder
			if b, err := d.Decode(p); err == nil && b == nil {
				t.Fatal("neither batch nor error")
			}
		}
		var list []json.RawMessage
		if json.Unmarshal(body, &list) != nil || len(list) == 0 {
			return
		}
		if how != endComplete || len(got)+bad != len(list) {
			t.Fatalf("%d of %d elements, %d bad, end %d", len(got), len(list), bad, how)
		}
		i := 0
		for _, raw := range list {
			if i < len(got) && bytes.Equal(raw, got[i].raw) {
				i++
			}
		}
		if i != len(got) {
			t.Fatalf("%d of %d events found in order", i, len(got))
		}
	})
}
