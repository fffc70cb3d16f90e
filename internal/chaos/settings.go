package chaos

import "time"

// How fast things are in a world. Nothing is wrong because it took longer than it does
// here, but for patience.
const (
	speed         = 2000 // of engines
	probes        = 60 * time.Millisecond
	hastyByte     = 4 * time.Second // in some worlds
	tokenizerTime = 150 * time.Millisecond
	beat          = 50 * time.Millisecond // of gateways that tell each other of their work
	dead          = 5 * beat              // a gateway without a word for so long is
	// maxIdle is longer than all jumps of a clock together: else Selections that are
	// under way would rightly be taken for forgotten.
	maxIdle = 10_000 * time.Hour
	// patience bounds every wait for what must happen.
	patience = 2 * time.Minute
	// slowest times patience is how long is waited at most on a machine that stands still.
	slowest = 5
	// silent is how long the gateway waits for a byte, at most.
	silent = 10 * time.Second
	// glance bounds waits for what only mostly happens.
	glance = 30 * time.Millisecond
)

const (
	tagPrivate   = "private"
	zoneHome     = "home"
	zoneShared   = "shared"
	providerName = "cloud"

	blockSize = 16 // of all engines, in tokens
)

// silence is how long the gateway waits for a byte. With a short patience it is short too,
// so that what is silent for good ends before the patience does.
func (w *world) silence() time.Duration {
	if w.setup.hasty {
		return hastyByte
	}
	return max(min(w.patience/3, silent), hastyByte)
}

// goodPolicies are what is put in force. All of them keep private requests at home.
func goodPolicies() []string {
	const head = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: chaos}
spec:
  rules:
  - name: serve
    route:
      exclude:
      - name: stays-in-the-house
        if: {tag: private}
        drop: {backend: {type: Provider}}
      - name: stays-at-home
        if: {tag: private}
        drop: {backend: {labels: {zone: shared}}}
      select:
`
	return []string{
		head + "      - {type: Local, minimize: PredictedTTFT}\n      - {type: Provider, order: [cloud]}\n",
		head + "      - {type: Provider, order: [cloud]}\n      - {type: Local, minimize: QueuedPrompts}\n",
		head + "      - {type: Local, minimize: KVCacheUsage}\n",
	}
}

// badPolicies must not come into force.
func badPolicies() []string {
	good := goodPolicies()[0]
	return []string{
		"", "{", "spec: [", good[:len(good)/2] + "\n  nonsense: {", "kind: Secret\n",
		`
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: chaos}
spec:
  rules:
  - name: serve
    route:
      exclude:
      - {name: typo, if: {tag: privat}, drop: {backend: {type: Provider}}}
      select:
      - {minimize: PredictedTTFT}
`,
		`
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: chaos}
spec:
  rules:
  - name: serve
    route:
      select:
      - {type: Local, minimise: PredictedTTFT}
`,
	}
}
