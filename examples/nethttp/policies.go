package main

import (
	"fmt"
	"log/slog"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
	"github.com/kvsteer/kvsteer/policy/file"
)

// rules are what decides where requests go, and who finds out what they hold.
type rules struct {
	options []kvsteer.Option
	source  *file.Source // nil unless the policy is in files
}

// named reports whether a policy is one of those that have a name, and no file.
func named(rule string) bool {
	return rule == "kvsteer" || rule == "round-robin" || rule == "least-requests"
}

// newRules takes "kvsteer", "round-robin", "least-requests", or a file or directory of
// policies, which is followed as it changes: docs/policy.md.
func newRules(name string, logger *slog.Logger) (*rules, error) {
	switch name {
	case "kvsteer":
		return &rules{options: []kvsteer.Option{kvsteer.WithPolicy(policy.Default{})}}, nil
	case "round-robin":
		return &rules{options: []kvsteer.Option{kvsteer.WithPolicy(new(policy.RoundRobin))}}, nil
	case "least-requests":
		return &rules{options: []kvsteer.Option{kvsteer.WithPolicy(policy.LeastRequests{})}}, nil
	}
	// Requests are looked through for tags that the policies ask for, and for no others.
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	if err != nil {
		return nil, err
	}
	classifiers, err := classify.NewSet(classify.SetOptions{
		Members: []classify.Member{{Classifier: scanner}, {Classifier: new(classify.LengthHeuristic)}},
	})
	if err != nil {
		return nil, err
	}
	source, err := file.Open(name, file.Options{
		Check:  policy.CheckOptions{Tags: classifiers.Tags()}, // a tag that nobody produces is refused
		Logger: logger,                                        // says what is wrong with a change, and where
	})
	if err != nil {
		return nil, fmt.Errorf("-policy is neither kvsteer, round-robin nor least-requests, and as a file: %w", err)
	}
	return &rules{
		options: []kvsteer.Option{kvsteer.WithPolicy(source), kvsteer.WithClassifiers(classifiers)}, source: source,
	}, nil
}

// Close stops following the files.
func (r *rules) Close() error {
	if r.source == nil {
		return nil
	}
	return r.source.Close()
}
