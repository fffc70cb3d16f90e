package kvsteer_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
)

// piiStays sends what holds personal data, or may, to the worker in the cellar.
const piiStays = `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: cellar}
spec:
  rules:
  - name: keep
    route:
      exclude:
      - name: not-upstairs
        if: {tag: pii-detected}
        drop: {backend: {name: w0}}
      select: [{minimize: PredictedTTFT}]
      onEmpty: Reject
`

func load(t *testing.T, text string) *policy.Set {
	t.Helper()
	set, err := policy.Load("policy.yaml", []byte(text), policy.Options{})
	require.NoError(t, err)
	return set
}

func classifiers(t *testing.T, list ...classify.Classifier) *classify.Set {
	t.Helper()
	var members []classify.Member
	for _, c := range list {
		members = append(members, classify.Member{Classifier: c})
	}
	set, err := classify.NewSet(classify.SetOptions{Members: members})
	require.NoError(t, err)
	return set
}

func candidates(d *kvsteer.Decision) (in, dropped []string) {
	for i := range d.Candidates {
		if c := &d.Candidates[i]; c.Place > 0 {
			in = append(in, c.Name)
		} else {
			dropped = append(dropped, c.Name+": "+c.DroppedBy)
		}
	}
	return in, dropped
}

func TestTagsDecide(t *testing.T) {
	t.Parallel()
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	require.NoError(t, err)
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{
		kvsteer.WithPolicy(load(t, piiStays)), kvsteer.WithClassifiers(classifiers(t, scanner)),
	}})
	ask := func(req *kvsteer.Request) *kvsteer.Decision {
		d, err := r.router.Explain(t.Context(), req)
		require.NoError(t, err)
		return d
	}
	clean := ask(chatRequest("what is the capital of France", false))
	in, _ := candidates(clean)
	require.Equal(t, []string{"w0", "w1"}, in)
	require.Equal(t, policy.TagAbsent, clean.Request.Tag("pii-detected"))

	const card = "4111 1111 1111 1111" // a test number
	found := ask(chatRequest("charge "+card+" please", false))
	in, dropped := candidates(found)
	require.Equal(t, []string{"w1"}, in)
	require.Len(t, dropped, 1)
	require.Contains(t, dropped[0], "not-upstairs")
	require.Equal(t, policy.TagPresent, found.Request.Tag("pii-detected"))
	require.Len(t, found.Findings, 1)
	require.Equal(t, classify.KindCard, found.Findings[0].Kind)
	require.Contains(t, found.String(), "pii-detected present")
	text, err := json.Marshal(found)
	require.NoError(t, err)
	require.NotContains(t, string(text), "1111 1111", "counts and offsets, never text")

	unseen := ask(&kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: []uint32{1, 2, 3}})
	in, _ = candidates(unseen)
	require.Equal(t, []string{"w1"}, in, "nobody can tell what ids say, and unknown restricts")

	// What the gateway knows counts as well, and present outweighs absent.
	told := chatRequest("x", false)
	told.Tags = []policy.Tag{{Name: "pii-detected", State: policy.TagPresent}}
	in, _ = candidates(ask(told))
	require.Equal(t, []string{"w1"}, in)
}

func TestAFailedClassifierIsNotAbsence(t *testing.T) {
	t.Parallel()
	broken := classify.Func{Produces: []string{"pii-detected"}, Judge: func(context.Context, *classify.Input, *classify.Result) error {
		return errors.New("out of order")
	}}
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{
		kvsteer.WithPolicy(load(t, piiStays)), kvsteer.WithClassifiers(classifiers(t, broken)),
	}})
	d, err := r.router.Explain(t.Context(), chatRequest("x", false))
	require.NoError(t, err)
	in, _ := candidates(d)
	require.Equal(t, []string{"w1"}, in)
	require.Contains(t, d.String(), "a classifier failed")
	require.Contains(t, d.String(), "pii-detected unknown")
}

// Only what a policy asks for is found out.
func TestNobodyAsksNobodyClassifies(t *testing.T) {
	t.Parallel()
	asked := classify.Func{Produces: []string{"pii-detected"}, Judge: func(context.Context, *classify.Input, *classify.Result) error {
		panic("nobody asked")
	}}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithClassifiers(classifiers(t, asked))}})
	r.waitTrust(kvcache.Exact)
	d, err := r.router.Explain(t.Context(), chatRequest("x", false))
	require.NoError(t, err)
	require.Empty(t, d.Request.Tags)
	require.Empty(t, d.Degradations)
}

func TestTrustedHeaderTags(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 2, options: []kvsteer.Option{
		kvsteer.WithPolicy(load(t, piiStays)), kvsteer.WithClassifiers(classifiers(t, classify.NewHeader("", "pii-detected"))),
	}})
	says := http.Header{classify.HeaderTags: {"pii-detected=absent"}}
	req := chatRequest("x", false)
	req.Header = says // a client's
	d, err := r.router.Explain(t.Context(), req)
	require.NoError(t, err)
	in, _ := candidates(d)
	require.Equal(t, []string{"w1"}, in, "a client's word is not taken")
	req.TrustedHeader = says
	d, err = r.router.Explain(t.Context(), req)
	require.NoError(t, err)
	in, _ = candidates(d)
	require.Equal(t, []string{"w0", "w1"}, in, "%v", d.Request.Tags)
}

func TestATagThatNobodyProducesIsRefused(t *testing.T) {
	t.Parallel()
	f := newRig(t, rigConfig{engines: 1}).fleet
	_, err := kvsteer.New(kvsteer.WithFleet(f), kvsteer.WithPolicy(load(t, piiStays)))
	require.ErrorContains(t, err, `asks for the tags "pii-detected", which nobody produces: add a classifier with WithClassifiers`)
	r, err := kvsteer.New(kvsteer.WithFleet(f), kvsteer.WithPolicy(load(t, piiStays)), kvsteer.WithTags("pii-detected"))
	require.NoError(t, err)
	require.Equal(t, []string{"pii-detected"}, r.Tags())
	require.NoError(t, r.Close())
}
