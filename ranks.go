package kvsteer

import "github.com/kvsteer/kvsteer/internal/jsonscan"

// The data-parallel rank is the router's to choose: what a client says of it would have one
// rank booked and another one compute. vLLM reads it from a header only, which strip
// removes; SGLang from the body, too.

// rankFields are the fields of a body that name a rank.
func rankFields() [3]string {
	return [...]string{"routed_dp_rank", "data_parallel_rank", "disagg_prefill_dp_rank"}
}

// unranked is the body without what it says of ranks: itself if it says nothing.
func unranked(o jsonscan.Object) ([]byte, error) {
	var e jsonscan.Edit
	says := false
	for _, name := range rankFields() {
		if _, has := o.Get(name); has {
			e.Delete(name)
			says = true
		}
	}
	if !says {
		return o.Bytes(), nil
	}
	return e.Apply(o)
}

// unrank removes from the body of a prompt what it says of ranks.
func (p *parsed) unrank() error {
	body, err := unranked(p.object)
	if err != nil || len(body) == len(p.body) {
		return err
	}
	p.body = body
	return p.scan()
}

// unrankForward is the same for what no prompt routes. An engine may read more as JSON than
// we can, and find a rank in it, so what can't be read is refused.
func (f *Forward) unrankForward(body []byte) ([]byte, *Error) {
	if len(body) == 0 || !maybeJSON(f.HTTP.Header) {
		return body, nil
	}
	o, err := jsonscan.Parse(body, 0)
	if err == nil {
		body, err = unranked(o)
	}
	if err != nil {
		return nil, badRequest(nil, "the body is not a JSON object: %v", err) // a position, never text
	}
	return body, nil
}
