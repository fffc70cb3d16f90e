package policytest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvsteer/kvsteer/policy"
)

func load(path string) (*policy.Set, error) {
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	return policy.Load(path, data, policy.Options{})
}

// Golden compares an explanation, in words and as JSON, with the files path+".txt"
// and path+".json". With update it writes them: give it a flag of your own.
func (k *Kit) Golden(t testing.TB, path string, update bool, o *Outcome) {
	t.Helper()
	k.note(o)
	e := policy.Explain(o.set, &o.Request, o.Candidates, &o.Plan)
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatalf("policytest: the explanation can't be encoded: %v", err)
	}
	golden(t, path+".txt", update, e.String()+"\n")
	golden(t, path+".json", update, string(data)+"\n")
}

func golden(t testing.TB, path string, update bool, got string) {
	t.Helper()
	if update {
		err := os.MkdirAll(filepath.Dir(path), 0o750)
		if err == nil {
			err = os.WriteFile(path, []byte(got), 0o600)
		}
		if err != nil {
			t.Fatalf("policytest: %v", err)
		}
		return
	}
	want, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatalf("policytest: %v; write it with update", err)
	}
	if string(want) != got {
		t.Errorf("policytest: %s says\n%s\nbut it is\n%s\nIf that is right, write it with update.", path, want, got)
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
