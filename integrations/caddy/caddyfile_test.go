package kvsteercaddy

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // directives
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// Every option, in the Caddyfile and in JSON: the same names, and the same meaning.
func TestCaddyfileAndJSONSayTheSame(t *testing.T) {
	var fromFile Handler
	require.NoError(t, fromFile.UnmarshalCaddyfile(caddyfile.NewTestDispenser(`kvsteer {
		worker gpu-0 http://10.0.0.7:8000 tcp://10.0.0.7:5557 tcp://10.0.0.7:5558
		worker gpu-1 http://10.0.0.8:8000
		policy policies
		model qwen3 /models/qwen3
		queue {
			hold 10ms
			max_waiting 100
			max_wait 20s
		}
		redis rediss://{env.REDIS_USER}@redis:6379 {
			channel chat
			name pod-1
		}
		snapshot caches
		snapshot_from https://a/snapshot https://b/snapshot
		snapshot_from https://{env.PEER}/snapshot
		record decisions.jsonl
		tenant {http.auth.user.id}
		qos gold
		pool {http.vars.pool}
		ready_path /ready /readyz
		ready_timeout 1s
		max_body 64MiB
		max_attempts 2
		first_byte_timeout 5m
		idle_timeout 1m
	}`)))
	want := Handler{
		Config: Config{
			Workers: []fleet.Worker{
				{
					Name: "gpu-0", URL: "http://10.0.0.7:8000",
					Events: []follow.Endpoint{{Events: "tcp://10.0.0.7:5557", Replay: "tcp://10.0.0.7:5558"}},
				},
				{Name: "gpu-1", URL: "http://10.0.0.8:8000"},
			},
			Policy: "policies", Models: map[string]string{"qwen3": "/models/qwen3"},
			Queue: &Queue{
				Hold: caddy.Duration(10 * time.Millisecond), MaxWaiting: 100, MaxWait: caddy.Duration(20 * time.Second),
			},
			Redis:    &Redis{URL: "rediss://{env.REDIS_USER}@redis:6379", Channel: "chat", Name: "pod-1"},
			Snapshot: "caches", SnapshotFrom: []string{"https://a/snapshot", "https://b/snapshot", "https://{env.PEER}/snapshot"},
			Record: "decisions.jsonl", MaxBody: 64 << 20, MaxAttempts: 2,
		},
		Options: Options{
			Tenant: "{http.auth.user.id}", QoS: "gold", Pool: "{http.vars.pool}",
			ReadyPath: []string{"/ready", "/readyz"}, ReadyTimeout: caddy.Duration(time.Second),
			FirstByteTimeout: caddy.Duration(5 * time.Minute), IdleTimeout: caddy.Duration(time.Minute),
		},
	}
	require.Equal(t, want.Config, fromFile.Config)
	require.Equal(t, want.Options, fromFile.Options)

	var fromJSON Handler
	require.NoError(t, json.Unmarshal([]byte(`{
		"workers": [
			{"name": "gpu-0", "url": "http://10.0.0.7:8000",
			 "events": [{"events": "tcp://10.0.0.7:5557", "replay": "tcp://10.0.0.7:5558"}]},
			{"name": "gpu-1", "url": "http://10.0.0.8:8000"}
		],
		"policy": "policies", "models": {"qwen3": "/models/qwen3"},
		"queue": {"hold": "10ms", "max_waiting": 100, "max_wait": "20s"},
		"redis": {"url": "rediss://{env.REDIS_USER}@redis:6379", "channel": "chat", "name": "pod-1"},
		"snapshot": "caches", "snapshot_from": ["https://a/snapshot", "https://b/snapshot", "https://{env.PEER}/snapshot"],
		"record": "decisions.jsonl", "tenant": "{http.auth.user.id}", "qos": "gold", "pool": "{http.vars.pool}",
		"ready_path": ["/ready", "/readyz"], "ready_timeout": "1s", "max_body": 67108864, "max_attempts": 2,
		"first_byte_timeout": "5m", "idle_timeout": "1m"
	}`), &fromJSON))
	require.Equal(t, want.Config, fromJSON.Config)
	require.Equal(t, want.Options, fromJSON.Options)

	text, err := json.Marshal(&fromFile)
	require.NoError(t, err)
	var again Handler
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, want.Config, again.Config)
	require.Equal(t, want.Options, again.Options)
}

// All addresses of workers may have placeholders; what was given stays as it was.
func TestPlaceholdersOfWorkers(t *testing.T) {
	t.Setenv("KVSTEER_HOST", "10.0.0.7")
	var h Handler
	require.NoError(t, h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(`kvsteer {
		worker a http://{env.KVSTEER_HOST}:8000 tcp://{env.KVSTEER_HOST}:5557 tcp://{env.KVSTEER_HOST}:5558
	}`)))
	given := h.Workers[0].Clone()
	got, err := h.resolved(caddy.NewReplacer())
	require.NoError(t, err)
	require.Equal(t, []fleet.Worker{{
		Name: "a", URL: "http://10.0.0.7:8000",
		Events: []follow.Endpoint{{Events: "tcp://10.0.0.7:5557", Replay: "tcp://10.0.0.7:5558"}},
	}}, got.Workers)
	require.Equal(t, given, h.Workers[0])
	h.Workers[0].Events[0].Replay = "tcp://{env.KVSTEER_NOT_SET}:1"
	_, err = h.resolved(caddy.NewReplacer())
	require.ErrorContains(t, err, "worker a: ")
}

// Mistakes in a Caddyfile are said with their line, and with what to write instead.
func TestCaddyfileMistakes(t *testing.T) {
	const file = "fleet fleet.yaml\n"
	cases := map[string]struct{ text, want string }{
		"unknown option":       {file + "polcy x", `kvsteer has no option "polcy"; did you mean "policy"?, at Testfile:3`},
		"no such thing":        {file + "gzip", `kvsteer has no option "gzip"; it has first_byte_timeout, fleet, idle_timeout, `},
		"unknown in queue":     {file + "queue {\n max_wiat 3s\n}", `queue has no option "max_wiat"; did you mean "max_wait"?, at Testfile:4`},
		"no workers":           {"tenant x", "there are no workers: give fleet a file that lists them, or name each by worker, at Testfile:"},
		"fleet and worker":     {file + "worker a http://b", "both fleet and worker are given: put all workers into the file, or drop fleet, at Testfile:3"},
		"twice":                {file + "fleet b.yaml", "fleet is given twice, first in line 2; keep one, at Testfile:3"},
		"no value":             {"fleet", "fleet: 0 arguments are given; it takes FILE, at Testfile:2"},
		"empty value":          {`fleet ""`, "fleet: the value is empty; it takes FILE, at Testfile:2"},
		"too many values":      {"fleet a b", "fleet: 2 arguments are given; it takes FILE"},
		"worker's address":     {"worker a http://b\n worker c ftp://d", `fleet: worker "c": url: `},
		"its line":             {"worker a http://b\n worker c ftp://d", "at Testfile:3"},
		"worker's events":      {"worker a http://b tcp://c", `fleet: worker "a": events[0].events: `},
		"worker twice":         {"worker a http://b\n worker a http://c", `fleet: worker "a": name: also the name of worker number 1`},
		"worker without url":   {"worker a", "worker: 1 arguments are given; it takes NAME URL [EVENTS [REPLAY]], at Testfile:2"},
		"worker with too much": {"worker a b c d e", "worker: 5 arguments are too many"},
		"no duration":          {file + "idle_timeout 5", `idle_timeout: "5" is no duration; it takes DURATION, such as 30s, at Testfile:3`},
		"no number":            {file + "max_attempts two", `max_attempts: "two" is no whole number; it takes COUNT, at Testfile:3`},
		"negative number":      {file + "max_attempts -1\ntenant x", "max_attempts: -1 is negative; give 1 or more, or leave it out for 3, at Testfile:3"},
		"no size":              {file + "max_body big", `max_body: "big" is no size; it takes SIZE, such as 64MiB, at Testfile:3`},
		"size beyond all":      {file + "max_body 17179869184GiB", `is no size; it takes SIZE`},
		"model twice":          {file + "model a /x\nmodel a /y", `model: the model "a" is given twice; it takes NAME DIRECTORY, at Testfile:4`},
		"no path":              {file + "ready_path healthz", `ready_path: "healthz" is no path; it must begin with a slash, at Testfile:3`},
		"no paths":             {file + "ready_path", "ready_path: 0 arguments are given; it takes PATH..., at Testfile:3"},
		"negative queue":       {file + "queue {\n max_wait -1s\n}", "queue: max_wait: -1s is negative; leave queue out for none to wait, at Testfile:4"},
		"no address":           {file + "redis", "redis: 0 arguments are given; it takes ADDRESS and perhaps a block, at Testfile:3"},
		"no Redis":             {file + "redis http://redis {\n name a\n}", "redis: url: redis: it is neither host:port nor a URL that begins with redis://, rediss:// (over TLS) or unix://, at Testfile:3"},
		"unknown in redis":     {file + "redis a {\n chanel x\n}", `redis has no option "chanel"; did you mean "channel"?, at Testfile:4`},
		"redis twice":          {file + "redis a\nredis b", "redis is given twice, first in line 3; keep one, at Testfile:4"},
		"no peer":              {file + "snapshot_from peer:9090", "snapshot_from: it is no URL that begins with http:// or https://, at Testfile:3"},
		"no peers":             {file + "snapshot_from", "snapshot_from: 0 arguments are given; it takes URL..., at Testfile:3"},
		"no snapshot":          {file + `snapshot ""`, "snapshot: the value is empty; it takes FILE, at Testfile:3"},
		"arguments of queue":   {file + "queue 5", "queue: 1 arguments are given; it takes "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := new(Handler).UnmarshalCaddyfile(caddyfile.NewTestDispenser("kvsteer {\n" + c.text + "\n}"))
			require.ErrorContains(t, err, c.want)
		})
	}
	err := new(Handler).UnmarshalCaddyfile(caddyfile.NewTestDispenser("kvsteer fleet.yaml"))
	require.ErrorContains(t, err, "kvsteer takes no arguments but a matcher: write its options in a block, such as { fleet fleet.yaml }, at Testfile:1")
}

// The directive needs no order of its own, takes a matcher, and its mistakes are those of
// the whole Caddyfile.
func TestDirectiveInASite(t *testing.T) {
	adapt := func(text string) (string, error) {
		out, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
		require.Empty(t, warnings)
		return string(out), err
	}
	out, err := adapt(":8080\n@llm path /v1/*\nkvsteer @llm {\n\tfleet fleet.yaml\n}\nheader X-Worker {http.kvsteer.worker}\nrespond 404\n")
	require.NoError(t, err)
	require.Contains(t, out, `{"fleet":"fleet.yaml","handler":"kvsteer"}`)
	_, err = adapt(":8080 {\n\tkvsteer {\n\t\tfleet fleet.yaml\n\t\tfirst_byte_timout 5s\n\t}\n}\n")
	require.ErrorContains(t, err, `did you mean "first_byte_timeout"?`)
	require.ErrorContains(t, err, "Caddyfile:4")
}

// Mistakes in JSON name the option, and what was probably meant.
func TestJSONMistakes(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"unknown":             {`{"flet": "x"}`, `kvsteer has no option "flet"; did you mean "fleet"?`},
		"unknown in queue":    {`{"queue": {"maxwaiting": 1}}`, `queue has no option "maxwaiting"; did you mean "max_waiting"?`},
		"unknown in redis":    {`{"redis": {"chanel": "x"}}`, `redis has no option "chanel"; did you mean "channel"?`},
		"unknown in a worker": {`{"workers": [{"name": "a"}, {"ulr": "x"}]}`, `workers[1] has no option "ulr"; did you mean "url"?`},
		"unknown in events":   {`{"workers": [{"events": [{"reply": "x"}]}]}`, `workers[0].events[0] has no option "reply"; did you mean "replay"?`},
		"wrong kind":          {`{"max_attempts": "2"}`, "max_attempts of type int"},
		"wrong kind within":   {`{"queue": 3}`, "queue of type"},
		"wrong kind of list":  {`{"workers": {}}`, "workers of type"},
		"no object":           {`[]`, "cannot unmarshal array"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, new(Handler).UnmarshalJSON([]byte(c.text)), c.want)
		})
	}
}
