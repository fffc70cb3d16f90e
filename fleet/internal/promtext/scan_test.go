package promtext_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kvsteer/kvsteer/fleet/internal/promtext"
)

func TestScan(t *testing.T) {
	cases := map[string]struct {
		text      string
		want      string // name|label a|value, one a sample
		malformed int
	}{
		"plain":             {"x 1\n", "x||1", 0},
		"no end of line":    {"x 1", "x||1", 0},
		"CRLF":              {"x 1\r\ny 2\r\n", "x||1 y||2", 0},
		"comments, blanks":  {"# HELP x y\n# TYPE x gauge\n\n   \nx 1\n# EOF\n", "x||1", 0},
		"labels":            {`x{b="2",a="1"} 3`, "x|1|3", 0},
		"trailing comma":    {`x{a="1",} 3`, "x|1|3", 0},
		"no labels":         {`x{} 3`, "x||3", 0},
		"blanks everywhere": {"  x { a = \"1\" , b=\"\" }\t 3  ", "x|1|3", 0},
		"escapes":           {`x{a="q\"b\\n\nz\q"} 3`, "x|q\"b\\n\nz\\q|3", 0},
		"brace in label":    {`x{b="}",a="{,="} 3`, "x|{,=|3", 0},
		"timestamp":         {"x 1 1700000000000", "x||1", 0},
		"exemplar":          {`x_bucket{a="1",le="+Inf"} 5 # {trace_id="a b"} 0.1 17`, "x_bucket|1|5", 0},
		"special numbers":   {"x NaN\ny +Inf\nz -Inf\nw 1e400", "x||NaN y||+Inf z||-Inf w||+Inf", 0},
		"not a number":      {"x one", "x||?", 0},
		"similar label":     {`x{aa="1",_a="2"} 3`, "x||3", 0},
		"UTF-8":             {`x{a="é"} 3`, "x|é|3", 0},
		"invalid UTF-8":     {"x{a=\"\xff\"} 3", "x|\xff|3", 0},
		"malformed": {
			"x\nx{a=\"1\" 3\nx{a=1} 3\n{a=\"1\"} 3\nx{a=\"1} 3\nx{a} 3\nx=3\nx{a=\"\\\nx{a=\"1\"}\ny 2",
			"y||2", 9,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			st := promtext.Scan([]byte(c.text), nil, func(s promtext.Sample) bool {
				a, _ := s.Label("a")
				value := "?"
				if v, ok := s.Value(); ok {
					value = fmt.Sprint(v)
				}
				got = append(got, string(s.Name())+"|"+a+"|"+value)
				return true
			})
			assert.Equal(t, c.want, strings.Join(got, " "))
			assert.Equal(t, promtext.Stats{Samples: len(got), Malformed: c.malformed}, st)
		})
	}
}

func TestScanWantedAndStop(t *testing.T) {
	text := []byte("a:x 1\nb:x 1\na:y 1\nbroken\na:z 1\n")
	var got []string
	want := func(name []byte) bool { return name[0] != 'b' }
	st := promtext.Scan(text, want, func(s promtext.Sample) bool {
		got = append(got, string(s.Name()))
		return len(got) < 2
	})
	assert.Equal(t, []string{"a:x", "a:y"}, got)
	assert.Equal(t, promtext.Stats{Samples: 2}, st)
}

func TestScanDoesNotAllocateForOtherLines(t *testing.T) {
	text := []byte(strings.Repeat(`vllm:bucket{engine="0",le="0.5",model_name="m"} 12.0`+"\n", 100))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		promtext.Scan(text, func(name []byte) bool { return string(name) == "vllm:bucket" },
			func(s promtext.Sample) bool { return len(s.Name()) > 0 })
	}))
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{`x{a="1",b="\"\\\n"} 1 2 # {c="d"} 3`, "x NaN\r\n", "{", `x{a="\`, "x{,,} 1", "é 1", "x\t1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := strings.Count(string(text), "\n") + 1
		st := promtext.Scan(text, nil, func(s promtext.Sample) bool {
			if len(s.Name()) == 0 {
				t.Fatal("no name")
			}
			if v, ok := s.Value(); !ok && v != 0 {
				t.Fatal("both a value and none")
			}
			if label, ok := s.Label("a"); !ok && label != "" || len(label) > len(text) {
				t.Fatalf("label %q", label)
			}
			return true
		})
		if st.Samples+st.Malformed > lines || st.Samples < 0 || st.Malformed < 0 {
			t.Fatalf("%+v of %d lines", st, lines)
		}
	})
}
