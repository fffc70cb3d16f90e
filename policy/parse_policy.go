package policy

// The tables from which policies are read and docs/policy-schema.json is made. What
// a key means is said once, here.

// document is the part of a document that is the policy's own.
type document struct {
	apiVersion, kind string
	meta             metadata
	spec             Spec
}

// metadata is a Kubernetes object's, as far as it is of interest.
type metadata struct {
	name, namespace string
}

const specDoc = "What the policy says."

func documentForm() form[document] {
	return object("document", "the document",
		key("apiVersion", text(schema{"enum": []string{APIVersion, APIVersionKinference}}),
			func(d *document) *string { return &d.apiVersion },
			"The version of the format: "+APIVersion+" has every key; "+APIVersionKinference+
				" is that of published policies, which have few.").attested().needed(),
		key("kind", text(schema{"const": Kind}), func(d *document) *string { return &d.kind },
			"The kind of document: "+Kind+".").attested().needed(),
		key("metadata", anyMetadata(), func(d *document) *metadata { return &d.meta },
			"Name and namespace of the policy.").attested().needed(),
		key("spec", specForm(), func(d *document) *Spec { return &d.spec }, specDoc).attested().needed(),
		key("status", ignored[document](), same[document], "Written by a cluster, not read.").attested(),
	)
}

func specForm() form[Spec] {
	return object("spec", "spec",
		key("priority", whole(minPriority, maxPriority), func(s *Spec) *int { return &s.Priority },
			"Of several policies, which is asked first: the one with the highest number. Equal ones go by namespace and name. Default 0."),
		key("mode", oneOf(
			word[Mode]{text: "Enforce", value: Enforce, doc: "It decides."},
			word[Mode]{text: "Shadow", value: Shadow, doc: "It is evaluated beside those that decide, and decisions tell the difference."},
		), func(s *Spec) *Mode { return &s.Mode }, "Whether the policy decides. Default Enforce."),
		key("pools", nameList(name()), func(s *Spec) *[]string { return &s.Pools },
			"The pools whose requests the policy is about. Default: all requests, of whatever pool."),
		key("models", listOf(modelForm(), "models"), func(s *Spec) *[]ModelLabels { return &s.Models },
			"Labels of models, for rules that name models by labels."),
		key("rules", listOf(ruleForm(), "rules"), func(s *Spec) *[]Rule { return &s.Rules },
			"Tried in this order; the first that matches decides.").attested().needed(),
	)
}

func modelForm() form[ModelLabels] {
	return object("model", "a model",
		key("name", name(), func(m *ModelLabels) *string { return &m.Name }, "The model's name, as clients write it.").needed(),
		key("labels", labelsForm(), func(m *ModelLabels) *map[string]string { return &m.Labels },
			"What it is, such as family: qwen3.").needed(),
	)
}

func ruleForm() form[Rule] {
	return object("rule", "a rule",
		key("name", name(), func(r *Rule) *string { return &r.Name }, "The rule's name in decisions; each once in a policy.").attested(),
		key("matches", listOf(matchForm(), "matches"), func(r *Rule) *[]Match { return &r.Matches },
			"Alternatives: the rule is about requests for which one of them holds. Default: about all.").attested(),
		key("route", routeForm(), func(r *Rule) *Route { return &r.Route }, "Where these requests may go.").attested().needed(),
	)
}

func matchForm() form[Match] {
	return object("match", "an item of matches",
		key("model", names(), func(m *Match) *[]string { return &m.Model },
			"The model that the request names; of several, any one.").attested(),
		key("tag", names(), func(m *Match) *[]string { return &m.Tag },
			"A tag that the request has; of several, any one.").attested(),
		key("tenant", names(), func(m *Match) *[]string { return &m.Tenant }, "The tenant; of several, any one."),
		key("qos", names(), func(m *Match) *[]string { return &m.QoS }, "The class of service; of several, any one."),
		key("api", oneOrMore(nameIn(apiNames()...)), func(m *Match) *[]string { return &m.API },
			"The API that the request uses; of several, any one."),
		key("header", oneOrMore(headerForm()), func(m *Match) *[]HeaderMatch { return &m.Header },
			"Conditions on headers of the request, which all hold."),
		key("promptTokens", rangeOf("tokens", number(), "tokens", false), func(m *Match) *Range { return &m.PromptTokens },
			"The length of the prompt in tokens."),
		key("session", optional(boolean()), func(m *Match) **bool { return &m.Session },
			"Whether the request belongs to a conversation."),
		key("queuedPrompts", countRange(), func(m *Match) *Range { return &m.QueuedPrompts },
			"The fewest prompts that wait at any local worker that the request could go to."),
		key("kvCacheUsage", shareRange(), func(m *Match) *Range { return &m.KVCacheUsage },
			"The least share of KV-cache memory in use at any local worker that the request could go to."),
		key("healthyWorkers", rangeOf("workers", number(), "workers", false), func(m *Match) *Range { return &m.HealthyWorkers },
			"How many local workers the request could go to."),
		key("onUnknown", unknownForm(), func(m *Match) *OnUnknown { return &m.OnUnknown },
			"What a tag counts as of which nobody knows. Default Absent."),
	)
}

func headerForm() form[HeaderMatch] {
	return object("header", "a header condition",
		key("name", name(), func(h *HeaderMatch) *string { return &h.Name }, "The header's name, in whatever case.").needed(),
		key("value", name(), func(h *HeaderMatch) *string { return &h.Value }, "It has this value."),
		key("prefix", name(), func(h *HeaderMatch) *string { return &h.Prefix }, "Its value begins with this."),
		key("absent", boolean(), func(h *HeaderMatch) *bool { return &h.Absent }, "true: the request doesn't have it."),
	)
}

func unknownForm() form[OnUnknown] {
	return oneOf(
		word[OnUnknown]{text: "Present", value: UnknownPresent, doc: "As if the request had it."},
		word[OnUnknown]{text: "Absent", value: UnknownAbsent, doc: "As if the request didn't have it."},
	)
}

func routeForm() form[Route] {
	return object("route", "route",
		key("consider", listOf(considerForm(), "consider"), func(r *Route) *[]Consider { return &r.Consider },
			"The candidates: what any item names. Default: the backends that serve the requested model.").attested(),
		key("exclude", listOf(excludeForm(), "exclude"), func(r *Route) *[]Exclusion { return &r.Exclude },
			"What is taken out again; every item by itself.").attested(),
		key("select", listOf(stageForm(), "select"), func(r *Route) *[]Stage { return &r.Select },
			"Stages: the first with a candidate decides. Default: one that takes the lowest predicted TTFT.").attested(),
		key("onEmpty", emptyForm(), func(r *Route) *OnEmpty { return &r.OnEmpty },
			"What happens when no candidate is left. Default Reject.").attested(),
	)
}

func considerForm() form[Consider] {
	models := object("considerModels", "models",
		key("names", nameList(name()), func(c *Consider) *[]string { return &c.Models }, "Models by name.").attested(),
		key("labels", labelsForm(), func(c *Consider) *map[string]string { return &c.ModelLabels }, "Models that have all these labels."),
	)
	workers := object("considerWorkers", "workers",
		key("names", nameList(name()), func(c *Consider) *[]string { return &c.Workers }, "Workers by name."),
		key("labels", labelsForm(), func(c *Consider) *map[string]string { return &c.WorkerLabels }, "Workers that have all these labels."),
	)
	providers := object("considerProviders", "providers",
		key("names", nameList(name()), func(c *Consider) *[]string { return &c.Providers }, "Providers by name.").needed(),
	)
	return object("consider", "an item of consider",
		key("models", models, same[Consider], "The models to serve the request with. Default: the requested one.").attested(),
		key("workers", workers, same[Consider], "Local workers only, these."),
		key("providers", providers, same[Consider], "Providers only, these."),
	)
}

func excludeForm() form[Exclusion] {
	return object("exclusion", "an item of exclude",
		key("name", name(), func(e *Exclusion) *string { return &e.Name }, "The exclusion's name in decisions.").attested(),
		key("if", conditionForm(), func(e *Exclusion) *Condition { return &e.If },
			"The requests that it is about; all that is set in it holds. Default: all.").attested(),
		key("drop", filterForm(), func(e *Exclusion) *Filter { return &e.Drop },
			"The candidates that it takes out: those of which all that is set in it holds.").attested(),
	)
}

func conditionForm() form[Condition] {
	return object("condition", "if",
		key("tag", names(), func(c *Condition) *[]string { return &c.Tag }, "A tag that the request has; of several, any one.").attested(),
		key("tenant", names(), func(c *Condition) *[]string { return &c.Tenant }, "The tenant; of several, any one."),
		key("qos", names(), func(c *Condition) *[]string { return &c.QoS }, "The class of service; of several, any one."),
		key("header", oneOrMore(headerForm()), func(c *Condition) *[]HeaderMatch { return &c.Header },
			"Conditions on headers of the request, which all hold."),
		key("onUnknown", unknownForm(), func(c *Condition) *OnUnknown { return &c.OnUnknown },
			"What a tag counts as of which nobody knows. Default Present, so that not knowing restricts."),
	)
}
