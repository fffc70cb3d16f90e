package file_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestLoadEveryField(t *testing.T) {
	got, err := file.Load(filepath.Join("testdata", "workers.yaml"))
	require.NoError(t, err)
	first := fleet.Worker{
		Name: "gpu-0", Epoch: "7", URL: "http://10.0.0.7:8000", Engine: fleet.EngineVLLM,
		Models: []string{"qwen3", "sql"}, Class: "h100-tp2", Pool: "chat", Labels: map[string]string{"region": "eu", "zone": "1"},
		BlockSize: 16, Speculative: true, Role: fleet.RoleDecode,
		Events: []follow.Endpoint{{Events: "tcp://10.0.0.7:5557", Replay: "tcp://10.0.0.7:5558", Topic: "kv"}},
	}
	second := first.Clone()
	second.Name, second.URL, second.DataParallel, second.Draining = "gpu-1", "http://10.0.0.8:8000", 2, true
	second.Events = []follow.Endpoint{{Events: "tcp://10.0.0.8:5557"}, {Events: "tcp://10.0.0.8:5558", Rank: 1}}
	assert.Equal(t, []fleet.Worker{first, second}, got)
}

func TestParseForms(t *testing.T) {
	const w = `name: a, url: "http://h:1"`
	cases := map[string]struct {
		text string
		n    int
	}{
		"list":       {"- {" + w + "}", 1},
		"mapping":    {"workers:\n- {" + w + "}", 1},
		"none":       {"workers: []", 0},
		"empty list": {"[]", 0},
		"json":       {`{"workers":[{"name":"a","url":"http://h:1"}]}`, 1},
		"bom":        {"\xef\xbb\xbfworkers: [{" + w + "}]", 1},
		"crlf":       {"workers:\r\n- name: a\r\n  url: http://h:1\r\n", 1},
		"start mark": {"---\nworkers: [{" + w + "}]\n...\n", 1},
		"merge list": {"- &a {" + w + "}\n- {<<: [*a, {class: x}], name: b}", 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := file.Parse([]byte(c.text))
			require.NoError(t, err)
			assert.Len(t, got, c.n)
		})
	}
}

func TestParseTabbedJSON(t *testing.T) {
	got, err := file.Load(filepath.Join("testdata", "tabs.json"))
	require.NoError(t, err)
	require.Len(t, got, 1)
	assert.Equal(t, "http://10.0.0.7:8000", got[0].URL)
	assert.Equal(t, "\u00e9", got[0].Labels["team"])
}

// TestParseHalves: characters as many JSON writers escape them, in two halves.
func TestParseHalves(t *testing.T) {
	const text = `[{"name": "a", "url": "http://h:1", "labels": {"\uD83D\uDE00": "\"\\\ud83d\ude00\\ud83d\\ude00\u00e9\ud83d\ude00"}, "draining": 1}]`
	got, err := file.Parse([]byte(strings.Replace(text, "1}]", "true}]", 1)))
	require.NoError(t, err)
	require.Len(t, got, 1)
	assert.Equal(t, map[string]string{"😀": "\"\\😀\\ud83d\\ude00é😀"}, got[0].Labels)
	var same []fleet.Worker
	require.NoError(t, json.Unmarshal([]byte(strings.Replace(text, "1}]", "true}]", 1)), &same))
	assert.Equal(t, same, got)

	_, err = file.Parse([]byte(text))
	require.ErrorContains(t, err, fmt.Sprintf("1:%d: draining", strings.Index(text, "1}]")+1), "places stay")
	for _, alone := range []string{`\ud83d`, `\ude00`, `\ud83dx\ude00`, `\ud83d\n`, `\ud83d\ud83d\ude00`} {
		_, err = file.Parse([]byte(`[{"name": "` + alone + `", "url": "http://h:1"}]`))
		require.ErrorContains(t, err, "invalid Unicode character escape code", alone)
	}
}

func TestParseErrors(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"empty":          {"", `the file is empty; write "workers: []"`},
		"comment only":   {"# nothing\n", `the file is empty`},
		"null":           {"~", "the file is empty"},
		"no workers":     {"{}", `1:1: the key "workers" is missing`},
		"workers null":   {"workers:\n", "workers must be a list, found nothing"},
		"text":           {"hello", `1:1: expected the key "workers" with a list, found "hello"`},
		"unknown top":    {"worker: []", `1:1: the file has no key "worker"; did you mean "workers"?`},
		"unknown key":    {"- name: a\n  url: http://h:1\n  block_size: 16", `3:3: a worker has no key "block_size"; did you mean "blockSize"?`},
		"transposed":     {"- name: a\n  ulr: http://h:1", `2:3: a worker has no key "ulr"; did you mean "url"?`},
		"far off":        {"- name: a\n  replicas: 3", `a worker has no key "replicas"; it has name, epoch, url`},
		"unknown event":  {"- name: a\n  url: http://h:1\n  events: [{event: tcp://h:1}]", `3:13: an entry of events has no key "event"; did you mean "events"?`},
		"twice":          {"- name: a\n  name: b\n  url: http://h:1", `2:3: the key "name" is given twice`},
		"wrong kind":     {"- name: a\n  url: http://h:1\n  blockSize: many", `3:14: blockSize must be a whole number, found "many"`},
		"quoted number":  {"- {name: a, url: 'http://h:1', blockSize: '16'}", "blockSize must be a whole number"},
		"fraction":       {"- {name: a, url: 'http://h:1', blockSize: 1.5}", "blockSize must be a whole number"},
		"huge number":    {"- {name: a, url: 'http://h:1', blockSize: 99999999999}", "blockSize must be a whole number"},
		"not a boolean":  {"- {name: a, url: 'http://h:1', draining: 'yes'}", `draining must be true or false, found "yes"`},
		"null name":      {"- {name: , url: 'http://h:1'}", "name must be a text, found nothing"},
		"list as text":   {"- {name: [a], url: 'http://h:1'}", "name must be a text, found a list"},
		"models a text":  {"- {name: a, url: 'http://h:1', models: qwen3}", `models must be a list, found "qwen3"`},
		"worker a text":  {"workers: [http://h:1]", "a worker must be a mapping of keys to values"},
		"events a text":  {"- name: a\n  url: http://h:1\n  events: tcp://h:1", `3:11: events must be a list, found "tcp://h:1"; write a list with one {events, replay} a rank: events: [{events: tcp://HOST:5557`},
		"event a text":   {"- name: a\n  url: http://h:1\n  events: [tcp://h:1]", `3:12: an entry of events is not a text, found "tcp://h:1"; write a list with one {events, replay}`},
		"events null":    {"- name: a\n  url: http://h:1\n  events:\n", `events must be a list, found nothing`},
		"tab":            {"workers:\n\t- name: a\n", "line 2: found character that cannot start any token; the line is indented with a tab"},
		"tab, key":       {"workers:\n- name: a\n\turl: http://h:1\n", "the line is indented with a tab, which YAML doesn't take: use blanks"},
		"tab after mark": {"workers:\n- \tname: a\n  \turl: http://h:1\n", "the line is indented with a tab"},
		"not YAML":       {"workers: [", "not YAML: "},
		"two documents":  {"[]\n---\n[]\n", "a second document begins here"},
		"invalid field":  {"- name: a\n  url: ftp://h:1", `2:8: fleet: worker "a": url: scheme "ftp" is not http or https`},
		"missing field":  {"- class: x\n- name: a\n", `1:3: fleet: worker number 1: name: missing`},
		"polled replay":  {"- name: a\n  url: http://h:1\n  events:\n  - events: http://h:1\n    replay: tcp://h:2", `5:13: fleet: worker "a": events[0].replay: events that are polled over HTTP can't be replayed`},
		"bind address":   {"- name: a\n  url: http://h:1\n  events:\n  - events: tcp://*:5557", `4:13: fleet: worker "a": events[0].events: * is an address to listen on`},
		"duplicate name": {"- {name: a, url: 'http://h:1'}\n- {name: a, url: 'http://h:2'}", `2:10: fleet: worker "a": name: also the name of worker number 1`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := file.Parse([]byte(c.text))
			require.Error(t, err)
			assert.Nil(t, got)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestErrorsAreTyped(t *testing.T) {
	_, err := file.Parse([]byte("- {nam: a}"))
	var syntax *file.SyntaxError
	require.ErrorAs(t, err, &syntax)
	require.ErrorIs(t, err, file.ErrSyntax)
	assert.Equal(t, 4, syntax.Column)
	_, err = file.Parse([]byte("- {name: a, url: 'ftp://h'}"))
	var worker *fleet.WorkerError
	require.ErrorAs(t, err, &worker)
	require.ErrorIs(t, err, fleet.ErrInvalidWorker)
	assert.Equal(t, "url", worker.Field)
}
