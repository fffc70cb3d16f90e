package policy

// The codes of findings about what a file says.
const (
	// CodeSyntax: it is no YAML.
	CodeSyntax = "syntax"
	// CodeFileTooLarge, CodeTooComplex: beyond the bounds of what is read.
	CodeFileTooLarge = "file-too-large"
	CodeTooComplex   = "too-complex"
	// CodeEmptyFile: there is no document in it.
	CodeEmptyFile = "empty-file"
	// CodeNoPolicy: there is no policy where one is needed.
	CodeNoPolicy = "no-policy"
	// CodeIgnored: a document that is neither a policy nor what policies refer to.
	CodeIgnored = "ignored-document"
	// CodeUnknownVersion, CodeUnknownKind: the document's apiVersion or kind.
	CodeUnknownVersion = "unknown-api-version"
	CodeUnknownKind    = "unknown-kind"
	// CodeUnknownKey: a mapping has no such key. CodeUnattested: published policies
	// have no such key or value, and the document has their apiVersion.
	CodeUnknownKey = "unknown-key"
	CodeUnattested = "unattested"
	// CodeDuplicateKey: a mapping has it twice. CodeMissingKey: it is required.
	CodeDuplicateKey = "duplicate-key"
	CodeMissingKey   = "missing-key"
	// CodeWrongType: a value of another kind. CodeUnknownValue: no such word.
	CodeWrongType    = "wrong-type"
	CodeUnknownValue = "unknown-value"
	// CodeTooMany: there are more findings than are listed.
	CodeTooMany = "too-many-findings"
)

// The codes of findings about what a policy means.
const (
	// CodeDuplicatePolicy: two policies of one namespace and name.
	CodeDuplicatePolicy = "duplicate-policy"
	// CodeDuplicateRule: two rules of one name.
	CodeDuplicateRule = "duplicate-rule"
	// CodeDuplicateName: two exclusions of one rule, or two models, of one name.
	CodeDuplicateName = "duplicate-name"
	// CodeDuplicateInOrder: a backend is twice in an order, or a share in a split.
	CodeDuplicateInOrder = "duplicate-in-order"
	// CodeDuplicateEntry: something is listed twice, to no effect.
	CodeDuplicateEntry = "duplicate-entry"
	// CodeUnnamed: a rule that decisions can't name.
	CodeUnnamed = "unnamed"
	// CodeNoRules: the policy never decides.
	CodeNoRules = "no-rules"
	// CodeEmptyList, CodeEmptyName, CodeEmptyMatch: nothing where something is meant.
	CodeEmptyList  = "empty-list"
	CodeEmptyName  = "empty-name"
	CodeEmptyMatch = "empty-match"
	// CodeUnreachableRule, CodeUnreachableMatch: what goes before always decides.
	CodeUnreachableRule  = "unreachable-rule"
	CodeUnreachableMatch = "unreachable-match"
	// CodeUnreachableStage: earlier stages take all that it could. CodeEmptyStage:
	// no candidate can be one of the stage's.
	CodeUnreachableStage = "unreachable-stage"
	CodeEmptyStage       = "empty-stage"
	// CodeEmptyConsider: it names no candidates.
	CodeEmptyConsider = "empty-consider"
	// CodeUnknownLabels: no model has the labels.
	CodeUnknownLabels = "unknown-labels"
	// CodeUnknownTag: no classifier produces the tag.
	CodeUnknownTag = "unknown-tag"
	// CodeUnknownName: no manifest defines the pool, worker or provider.
	CodeUnknownName = "unknown-name"
	// CodeWrongBackend: a provider where only workers are candidates, or the reverse.
	CodeWrongBackend = "wrong-backend-type"
	// CodeAliasShadowsModel: requests for a model that exists go to others.
	CodeAliasShadowsModel = "alias-shadows-model"
	// CodeNoOnEmpty: a restriction by a tag, and what happens then is not said.
	CodeNoOnEmpty = "restriction-without-on-empty"
	// CodeRestrictionLost: the next rule may not restrict as this one does.
	CodeRestrictionLost = "restriction-lost"
	// CodeFailsOpen: not knowing a tag does not restrict.
	CodeFailsOpen = "fails-open"
	// CodeDropsAll: exclusions leave nothing. CodeNoDrop: an exclusion does not say
	// what it drops, and so drops all. CodeNoEffect: something changes nothing.
	CodeDropsAll = "drops-everything"
	CodeNoDrop   = "no-drop"
	CodeNoEffect = "no-effect"
	// CodeEmptyRange: no number is in it. CodeFullRange: every number is.
	CodeEmptyRange = "empty-range"
	CodeFullRange  = "full-range"
	// CodeInvalidValue: a number, status, weight or name that can't be.
	CodeInvalidValue = "invalid-value"
	// CodeContradiction: two things that exclude each other.
	CodeContradiction = "contradiction"
	// CodeLastNextRule: there is no next rule.
	CodeLastNextRule = "next-rule-at-the-end"
	// CodeMinimizeWithOrder: what minimize means beside an order.
	CodeMinimizeWithOrder = "minimize-with-order"
)
