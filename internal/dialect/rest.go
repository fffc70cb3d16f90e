package dialect

// Loss is what it means to leave a member of a body out.
type Loss uint8

// The losses.
const (
	// LossNote changes little: a Warning.
	LossNote Loss = iota
	// LossNone changes nothing: the member asks for what is anyhow.
	LossNone
	// LossRefuse would change what the client gets: an UnsupportedError.
	LossRefuse
)

// Leftover decides on the members of Request.Rest that a target has no place for. taken
// reports those that the target has placed itself; nil for none. What leaving a member out
// means is known to the API that it comes from: each has a function for it.
func Leftover(rest []Member, service string, taken func(*Member) bool, note func(Warning)) error {
	for i := range rest {
		m := &rest[i]
		if taken != nil && taken(m) {
			continue
		}
		loss, reason := lossOf(m)
		switch loss {
		case LossNone:
		case LossRefuse:
			return &UnsupportedError{Field: m.Name, Service: service, Reason: reason}
		case LossNote:
			note(Warning{Field: m.Name, Reason: reason})
		}
	}
	return nil
}

// reasonUnknown is for what no codec has heard of.
const reasonUnknown = "the service doesn't get it: no field of its API is known to mean this"

func lossOf(m *Member) (loss Loss, reason string) {
	switch m.From {
	case chatName:
		return chatLoss(m)
	case responsesName:
		return responsesLoss(m)
	case messagesName:
		return messagesLoss(m)
	default: // the other codecs' functions come here
		return LossNote, reasonUnknown
	}
}
