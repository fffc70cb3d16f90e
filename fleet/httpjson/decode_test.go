package httpjson_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/fleet/httpjson"
)

const full = `{"workers": [
  {"name": "gpu-0", "url": "http://10.0.0.7:8000", "epoch": "e1", "engine": "vllm", "models": ["m"], "class": "h100",
   "pool": "p", "labels": {"region": "eu"}, "blockSize": 16, "dataParallel": 1, "speculative": true, "role": "decode",
   "draining": true, "events": [{"events": "tcp://10.0.0.7:5557", "replay": "tcp://10.0.0.7:5558", "topic": "t"}]},
  {"name": "gpu-1", "url": "http://10.0.0.8:8000"}
]}`

// TestSameAsAFile: the form is that of a fleet file.
func TestSameAsAFile(t *testing.T) {
	for _, body := range []string{full, `[{"name": "a", "url": "http://h:1"}]`, `{"workers": []}`, `[]`, " [ ] \n"} {
		want, err := file.Parse([]byte(body))
		require.NoError(t, err)
		got, err := httpjson.Decode([]byte(body))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestEscapes(t *testing.T) {
	got, err := httpjson.Decode([]byte(`[{"name": "gpu\ud83d\ude00", "url": "http:\/\/h:1", "labels": null}]`))
	require.NoError(t, err)
	assert.Equal(t, []fleet.Worker{{Name: "gpu😀", URL: "http://h:1"}}, got)
}

// TestRefusals: one wrong entry refuses the answer, and the error says which and
// why.
func TestRefusals(t *testing.T) {
	const a = `{"name": "a", "url": "http://h:1"}`
	for body, want := range map[string]string{
		`[` + a + `, {"name": "b", "url": "http://h:2", "ulr": 1}]`:          `workers[1]: fleet: worker "b": json: unknown field "ulr"`,
		`[` + a + `, {"name": "b", "url": "http://h:2", "blockSize": "16"}]`: `workers[1]: fleet: worker "b": blockSize: expected a whole number, found string`,
		`[` + a + `, {"name": "b", "url": "http://h:2", "blockSize": 1.5}]`:  `workers[1]: fleet: worker "b": blockSize: expected a whole number, found number 1.5`,
		`[` + a + `, {"name": "b", "url": "http://h:2", "models": "m"}]`:     `workers[1]: fleet: worker "b": models: expected a list, found string`,
		`[` + a + `, {"name": "b", "url": "http://h:2", "draining": 1}]`:     `workers[1]: fleet: worker "b": draining: expected true or false, found number`,
		`[` + a + `, {"name": "b", "url": "http://h:2", "labels": [1]}]`:     `workers[1]: fleet: worker "b": labels: expected an object, found array`,
		`[` + a + `, {"name": 7, "url": "http://h:2"}]`:                      `workers[1]: fleet: worker number 2: name: expected a text, found number`,
		`[` + a + `, "b"]`:            `workers[1]: fleet: worker number 2: expected an object, found string`,
		`[` + a + `, null]`:           `workers[1]: fleet: worker number 2: name: missing`,
		`[` + a + `, {"name": "b"}]`:  `workers[1]: fleet: worker "b": url: missing`,
		`[` + a + `, ` + a + `]`:      `workers[1]: fleet: worker "a": name: also the name of worker number 1`,
		`{"workers": [], "index": 7}`: `unknown field "index"; it must be {"workers": [...]} or a list`,
		`{"workers": {}}`:             `expected a list, found object; it must be`,
		`{}`:                          `the key "workers" is missing or null; write {"workers": []} if there are none`,
		`null`:                        `the key "workers" is missing or null`,
		`7`:                           `expected an object, found number; it must be`,
		`[] []`:                       `not JSON: invalid character '[' after top-level value`,
		``:                            `not JSON: unexpected end of JSON input; is this the right URL, and does it need credentials?`,
	} {
		t.Run(body, func(t *testing.T) {
			s := newServer(t, nil)
			s.answer([]byte(body))
			d := s.discoverer()
			err := failure(t, d)
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, d.URL+": ")
			if want[0] != 'w' {
				require.ErrorIs(t, err, httpjson.ErrSyntax)
				return
			}
			var we *fleet.WorkerError
			require.ErrorAs(t, err, &we)
			assert.Equal(t, 1, we.Index)
		})
	}
}

// TestMemory: a list of nothings of the length that is allowed takes no more
// memory than a few times that length.
func TestMemory(t *testing.T) {
	const length = 10 << 20
	nothings := strings.Repeat("0,", length/2-2) + "0"
	for body, want := range map[string]string{
		"[" + nothings + "]":                     "it has more than 100000 entries; it must be",
		`{"workers": [` + nothings + "]}":        "it has more than 100000 entries; it must be",
		"[" + nothings[:len("0,")*90_000] + "0]": "workers[19]: ",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		workers, err := httpjson.Decode([]byte(body))
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "workers[20]")
		assert.Nil(t, workers)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10*length))
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{full, `[]`, `{"workers": null}`, `null`, `[null]`, `[{"name": 1}]`, "\xef\xbb\xbf[]", `{"workers": [[]]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		workers, err := httpjson.Decode(body)
		if err != nil {
			if workers != nil {
				t.Fatal("both a list and an error")
			}
			return
		}
		if !json.Valid(body) {
			t.Fatal("took what is no JSON")
		}
		again, err := json.Marshal(workers)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := httpjson.Decode(again); err != nil || len(second) != len(workers) {
			t.Fatalf("does not read what it would write: %v", err)
		}
	})
}
