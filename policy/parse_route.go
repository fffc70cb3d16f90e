package policy

import (
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

func filterForm() form[Filter] {
	backend := object("backend", "backend",
		key("type", typeForm(), func(f *Filter) *BackendKind { return &f.Type }, "Only those of this type.").attested(),
		key("name", names(), func(f *Filter) *[]string { return &f.Name }, "The backend's name; of several, any one."),
		key("labels", labelsForm(), func(f *Filter) *map[string]string { return &f.Labels }, "Labels that it has, all of them."),
		key("region", names(), func(f *Filter) *[]string { return &f.Region },
			"Its label region, or else topology.kubernetes.io/region; of several, any one."),
	)
	return object("drop", "drop",
		key("backend", backend, same[Filter], "What the backend is.").attested(),
		key("queuedPrompts", countRange(), func(f *Filter) *Range { return &f.QueuedPrompts }, "Prompts that wait there.").attested(),
		key("runningRequests", rangeOf("requests", number(), "requests", false), func(f *Filter) *Range { return &f.RunningRequests },
			"Requests that it runs."),
		key("kvCacheUsage", shareRange(), func(f *Filter) *Range { return &f.KVCacheUsage },
			"The share of its KV-cache memory that is in use."),
		key("predictedTTFT", rangeOf("time", seconds(), "time", false), func(f *Filter) *Range { return &f.PredictedTTFT },
			"The predicted time to first token."),
		key("cachedTokens", rangeOf("tokens", number(), "tokens", false), func(f *Filter) *Range { return &f.CachedTokens },
			"Tokens of the prompt that it need not compute again."),
		key("price", rangeOf("price", number(), "US dollars", false), func(f *Filter) *Range { return &f.Price },
			"What this request is expected to cost there. Of a price that nobody knows every condition holds."),
		key("remainingQuota", shareRange(), func(f *Filter) *Range { return &f.RemainingQuota },
			"The share of a provider's quota that is left. Of a quota that nobody knows no condition holds."),
		key("trust", oneOrMore(nameIn(trustNames()...)), func(f *Filter) *[]string { return &f.Trust },
			"How far what is known of its cache can be relied on; of several, any one."),
	)
}

func typeForm() form[BackendKind] {
	return oneOf(
		word[BackendKind]{text: "Local", value: LocalOnly, published: true, doc: "Our own workers."},
		word[BackendKind]{text: "Provider", value: ProviderOnly, published: true, doc: "External services."},
	)
}

func stageForm() form[Stage] {
	return object("stage", "an item of select",
		key("type", typeForm(), func(s *Stage) *BackendKind { return &s.Type }, "Only backends of this type. Default: any.").attested(),
		key("minimize", oneOf(
			word[Metric]{text: "PredictedTTFT", value: PredictedTTFT, published: true, doc: "The time to first token, with what it costs others."},
			word[Metric]{text: "PredictedE2E", value: PredictedE2E, doc: "The time to the last token."},
			word[Metric]{text: "QueuedPrompts", value: QueuedPrompts, doc: "Prompts that wait there."},
			word[Metric]{text: "KVCacheUsage", value: KVCacheUsage, doc: "The share of KV-cache memory in use."},
			word[Metric]{text: "Cost", value: Cost, doc: "What the request is expected to cost."},
		), func(s *Stage) *Metric { return &s.Minimize }, "What decides among the stage's candidates. Default PredictedTTFT.").attested(),
		key("order", nameList(name()), func(s *Stage) *[]string { return &s.Order },
			"Names of backends, the preferred first; others are no candidates of the stage. Those of one name go by minimize.").attested(),
		key("weighted", listOf(shareForm(), "weighted"), func(s *Stage) *[]Share { return &s.Weighted },
			"Splits requests among shares at random, those of a session always the same way. The other shares come after."),
		key("switchOnlyIf", object("switch", "switchOnlyIf",
			key("fasterBy", margin(), same[Margin],
				"By how much: a duration, or a share of the requested model's time, or both in a list.").needed(),
		), marginOf,
			"Keeps to the requested model unless another one is predicted to be faster by this."),
	)
}

func marginOf(s *Stage) *Margin {
	if s.SwitchOnlyIf == nil {
		s.SwitchOnlyIf = &Margin{}
	}
	return s.SwitchOnlyIf
}

func shareForm() form[Share] {
	return object("share", "a share",
		key("model", name(), func(s *Share) *string { return &s.Model }, "Candidates that serve this model."),
		key("name", name(), func(s *Share) *string { return &s.Name }, "The backend of this name."),
		key("labels", labelsForm(), func(s *Share) *map[string]string { return &s.Labels }, "Backends that have all these labels."),
		key("weight", whole(0, maxShareWeight), func(s *Share) *int { return &s.Weight },
			"Its part of the requests, relative to the others'.").needed(),
	)
}

// emptyForm is an action alone, or one with what belongs to it.
func emptyForm() form[OnEmpty] {
	action := oneOf(
		word[Action]{text: "Reject", value: Reject, published: true, doc: "The request is rejected."},
		word[Action]{text: "Wait", value: Wait, doc: "It waits for a candidate, and is then rejected."},
		word[Action]{text: "NextRule", value: NextRule, doc: "The next rule that matches decides, as if this one did not match."},
	)
	full := object("onEmpty", "onEmpty",
		key("action", action, func(e *OnEmpty) *Action { return &e.Action }, "Reject, Wait or NextRule.").needed(),
		key("status", whole(minStatus, maxStatus), func(e *OnEmpty) *int { return &e.Status },
			"The HTTP status of the rejection. Default: what the gateway answers."),
		key("message", name(), func(e *OnEmpty) *string { return &e.Message }, "The message of the rejection."),
		key("upTo", duration(), func(e *OnEmpty) *time.Duration { return &e.UpTo }, "How long Wait waits."),
	)
	return scalarOr(action, func(e *OnEmpty) *Action { return &e.Action }, full)
}

// countRange is a range of waiting prompts, which published policies have.
func countRange() form[Range] { return rangeOf("prompts", number(), "prompts", true) }

func shareRange() form[Range] {
	return rangeOf("shares", shareValue(), "a share such as 70% or 0.7", false)
}

// apiNames are the values of [Request.API].
func apiNames() []string {
	return []string{"chat", "completions", "messages", "responses", "embeddings"}
}

// trustNames are the states of trust, the least first.
func trustNames() []string {
	states := []kvcache.Trust{kvcache.Blind, kvcache.Approximate, kvcache.Suspect, kvcache.Resyncing, kvcache.Exact}
	names := make([]string, len(states))
	for i, state := range states {
		names[i] = state.String()
	}
	return names
}
