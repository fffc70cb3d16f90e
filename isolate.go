package kvsteer

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/salt"
)

// foreign are fields by which a request says where blocks of a KV cache are to be fetched
// from, or put. With a Salter no client's are passed on: they could be another tenant's.
func foreign() []string {
	return []string{"kv_transfer_params", "ec_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room"}
}

// isolate gives the body its tenant's cache salt, and takes the engine's priority out of it:
// with that a client would go before others, in an engine that heeds it.
func (t *TenancyOptions) isolate(p *parsed, id *tenancy.Identity) error {
	if t == nil || len(p.body) == 0 {
		return nil
	}
	var e jsonscan.Edit
	_, pushes := p.object.Get("priority")
	if pushes = pushes && t.Identify != nil; pushes {
		e.Delete("priority")
	}
	if t.Salter != nil {
		t.salt(&e, &p.hints, id, p.salt)
	} else if !pushes {
		return nil
	}
	body, err := e.Apply(p.object)
	if err == nil {
		p.body = body
		err = p.scan()
	}
	if err != nil {
		return badRequest(err, "the body can't be given its tenant's cache_salt")
	}
	p.salt, _ = p.object.Value("cache_salt").Str()
	return nil
}

// isolateForward is what is sent of a request that no prompt routes: with its tenant's
// cache salt where engines keep what such requests say in a cache, and with none of the
// client's anywhere.
func (r *Router) isolateForward(f *Forward, s *Selection) ([]byte, *Error) {
	t := r.opts.tenancy
	if t == nil || t.Salter == nil || !f.brings() || !maybeJSON(f.HTTP.Header) || f.HTTP.Header.Get("Upgrade") != "" {
		return f.Body, nil
	}
	if len(f.Body) == 0 {
		return nil, badRequest(nil, "the body is too long, or of unknown length, to be given its tenant's cache_salt; "+
			"send less, with a Content-Length")
	}
	o, err := jsonscan.Parse(f.Body, 0)
	if err != nil {
		return nil, badRequest(nil, "the body is not a JSON object: %v", err)
	}
	client, needs := "", pooling(f.HTTP.URL.Path)
	for i := range o.Len() {
		key, v := o.Field(i)
		switch name := string(key); {
		case name == "cache_salt":
			needs = true
			client, _ = v.Str()
		case slices.Contains(foreign(), name):
			needs = true
		default:
		}
	}
	if !needs {
		return f.Body, nil
	}
	var e jsonscan.Edit
	t.salt(&e, &s.parsed.hints, s.account.identity, client)
	body, err := e.Apply(o)
	if err != nil {
		return nil, badRequest(err, "the body can't be given its tenant's cache_salt")
	}
	return body, nil
}

func (t *TenancyOptions) salt(e *jsonscan.Edit, h *hints, id *tenancy.Identity, client string) {
	of := salt.Fields{Org: id.Org, Tenant: h.tenant}
	if t.ClientSalts {
		of.Client = client
	}
	e.SetString("cache_salt", t.Salter.Salt(&of))
	for _, key := range foreign() {
		e.Delete(key)
	}
}

// bare is the view without the salt that isolate gave it: a service outside refuses fields
// that it does not know, and our tenants' salts are none of its business. The caller holds
// s.mu.
func (s *Selection) bare(v *view) *view {
	a := &s.attempt
	if a.bare == nil {
		a.bare = &view{}
		a.bare.body, a.bare.object = s.router.opts.tenancy.unsalted(v.body, v.object)
	}
	return a.bare
}

// unsalted is a body as a service outside gets it. Without a Salter a salt in it is the
// client's, and stays.
func (t *TenancyOptions) unsalted(body []byte, o jsonscan.Object) ([]byte, jsonscan.Object) {
	if t == nil || t.Salter == nil {
		return body, o
	}
	if _, salted := o.Get("cache_salt"); !salted {
		return body, o
	}
	var e jsonscan.Edit
	e.Delete("cache_salt")
	out, err := e.Apply(o)
	if err != nil { // what was read before can be read now: never
		return nil, jsonscan.Object{}
	}
	left, _ := jsonscan.Parse(out, 0)
	return out, left
}

// unsaltedForward is the same of a request that no prompt routes.
func (t *TenancyOptions) unsaltedForward(body []byte) []byte {
	if t == nil || t.Salter == nil {
		return body
	}
	o, bad := jsonscan.Parse(body, 0)
	if bad != nil {
		return body // it was given no salt
	}
	body, _ = t.unsalted(body, o)
	return body
}

// pooling reports whether a path is one of those whose texts vLLM computes and caches as
// it does prompts.
func pooling(path string) bool {
	switch strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(path, "/"), "/v1"), "/v2") {
	case "/rerank", "/score", "/classify", "/pooling":
		return true
	default:
		return false
	}
}

// maybeJSON reports whether an engine may read the body as JSON: without a type, and by
// whatever stands before the first semicolon, as FastAPI's do.
func maybeJSON(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "" || strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json")
}

// modelIn reads the model that a forwarded request names, "" if it names none. It is not
// known if it may name one that can't be read here, though an engine may.
func (f *Forward) modelIn() (name string, known bool) {
	h := f.HTTP.Header
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case h.Get("Upgrade") != "":
		return "", false
	case !f.brings():
		return f.HTTP.URL.Query().Get("model"), true
	case maybeJSON(h):
		o, bad := jsonscan.Parse(f.Body, 0)
		if bad != nil {
			return "", false
		}
		name, _ = o.Value("model").Str()
		return name, true
	case err == nil && kind == "multipart/form-data":
		return modelPart(multipart.NewReader(bytes.NewReader(f.Body), params["boundary"]))
	default:
		return "", true // no engine reads it as a request
	}
}

// modelPart is the field model of a form, the last if there are several.
func modelPart(form *multipart.Reader) (name string, known bool) {
	const most = 4096
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return name, true
		}
		if err != nil {
			return "", false
		}
		if part.FormName() != "model" {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(part, most))
		if err != nil {
			return "", false
		}
		name = string(text)
	}
}

// unreadable refuses a request whose model can't be read to who may not use all.
func unreadable(id *tenancy.Identity, known bool) *Error {
	if known || id == nil || id.Models == nil {
		return nil
	}
	return &Error{
		Code: CodeForbidden, Message: "the model that the request names can't be read, and its tenant may not use all models; " +
			"send a JSON object, or a form with a field model",
	}
}
