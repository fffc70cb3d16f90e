package kvsteer

import "github.com/kvsteer/kvsteer/internal/jsonscan"

// BodyWithUsage is Body with usage asked for (stream_options.include_usage) where it is an
// OpenAI stream that does not ask: predictions are checked by it. The [Answer] then takes
// the extra chunk out. It must not be modified.
func (s *Selection) BodyWithUsage() []byte {
	body, added := s.withUsage()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = added
	return body
}

// withUsage also reports whether it changed the body.
func (s *Selection) withUsage() ([]byte, bool) {
	body, object := s.sent()
	return askForUsage(s.parsed.api, object, body, s.router.opts.tenancy != nil)
}

// askForUsage sets stream_options.include_usage in a streaming OpenAI request
// that does not ask for it, and reports whether it did. If it must, because somebody pays,
// it is asked for whatever the request says, in words that an engine may understand.
func askForUsage(api API, o jsonscan.Object, body []byte, must bool) ([]byte, bool) {
	if api != ChatCompletions && api != Completions {
		return body, false
	}
	if on, ok := o.Value("stream").Bool(); !ok || !on {
		return body, false
	}
	opts := o.Value("stream_options")
	if asked := opts.Get("include_usage"); asked.Exists() {
		if on, isBool := asked.Bool(); on || !isBool && !must {
			return body, false // asked for already, or malformed: the engine will say so
		}
	}
	if each, _ := opts.Get("continuous_usage_stats").Bool(); each && !must {
		return body, false // usage would come with every chunk, which can't be taken out
	}
	var e jsonscan.Edit
	e.SetIn("stream_options", "include_usage", []byte("true"))
	edited, err := e.Apply(o)
	if err != nil {
		return body, false // stream_options is no object: the engine will say so
	}
	return edited, true
}
