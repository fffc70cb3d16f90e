package dialect

// Anthropic bounds reasoning by tokens, OpenAI names an effort. What one is in the other
// is a convention, not a fact: these are the figures that gateways commonly use.
const (
	budgetLow    = 1024 // the least that Anthropic takes
	budgetMedium = 8192
	budgetHigh   = 24576
)

// BudgetOf is the budget that an effort stands for; 0 for none that is known.
func BudgetOf(effort string) int64 {
	switch effort {
	case "minimal", "low":
		return budgetLow
	case "medium":
		return budgetMedium
	case "high", "xhigh":
		return budgetHigh
	default:
		return 0
	}
}

// EffortOf is the effort that a budget stands for.
func EffortOf(budget int64) string {
	switch {
	case budget <= 0:
		return ""
	case budget < budgetMedium:
		return "low"
	case budget < budgetHigh:
		return "medium"
	default:
		return "high"
	}
}
