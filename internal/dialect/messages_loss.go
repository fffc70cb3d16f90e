package dialect

// messagesLoss says what it means to leave a member of a body out.
func messagesLoss(m *Member) (loss Loss, reason string) {
	switch m.Name {
	case "context_management":
		return LossNote, "the conversation is sent whole"
	case "cache_control":
		return LossNote, "the service caches prompts as it likes"
	case "service_tier":
		if string(m.Raw) == `"auto"` {
			return LossNone, ""
		}
		return LossNote, "the service has its own tiers"
	case "speed":
		if string(m.Raw) == `"standard"` {
			return LossNone, ""
		}
		return LossNote, "the service has its own tiers"
	case "inference_geo":
		// Where a prompt may go is a promise to somebody.
		return LossRefuse, "the service doesn't take a region; choose it in the policy"
	case "diagnostics", "fallbacks", "fallback_credit_token", "user_profile_id":
		return LossNote, "only Anthropic uses it"
	default:
		return LossNote, reasonUnknown
	}
}
