package policy

// TagState says whether something holds for a request: it does, it does not, or
// nobody can tell.
type TagState uint8

// The states. A tag that no classifier speaks of is unknown.
const (
	TagUnknown TagState = iota
	TagAbsent
	TagPresent
)

// String returns the state's name.
func (s TagState) String() string {
	switch s {
	case TagAbsent:
		return "absent"
	case TagPresent:
		return "present"
	case TagUnknown:
		return "unknown"
	default:
		return "invalid"
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (s TagState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. What is none of the names
// is unknown.
func (s *TagState) UnmarshalText(text []byte) error {
	switch string(text) {
	case "present":
		*s = TagPresent
	case "absent":
		*s = TagAbsent
	default:
		*s = TagUnknown
	}
	return nil
}

// Tag is what is known about a request by one name.
type Tag struct {
	Name  string   `json:"name"`
	State TagState `json:"state"`
}

// Tag returns the state of a tag, TagUnknown if nothing is said about it.
func (r *Request) Tag(name string) TagState {
	for i := range r.Tags {
		if r.Tags[i].Name == name {
			return r.Tags[i].State
		}
	}
	return TagUnknown
}
