package providers

import (
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/tenancy/price"
)

// ErrClosed is what a Set says that was closed.
var ErrClosed = errors.New("providers: the Set is closed")

// Update replaces the providers, or changes nothing and says why, as New does. What was
// learned of a model at a provider is kept if the provider's Name, Kind and URL and the
// model's Upstream stay. Requests under way go on as they were begun.
func (s *Set) Update(list []Provider) error {
	list, bases, err := checkAll(list)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return ErrClosed
	}
	u := &update{
		set: s, old: s.now.Load(),
		next:   &snapshot{models: map[string][]*Offer{}, paths: map[string]*Offer{}},
		states: map[stateKey]*state{}, accounts: map[string]*account{}, files: map[string]*followed{},
	}
	for i := range list {
		if err := u.open(i, &list[i]); err != nil {
			u.undo()
			return err
		}
	}
	for i := range list {
		u.add(&list[i], bases[i])
	}
	for path, f := range s.files {
		if u.files[path] == nil {
			f.files.Close()
		}
	}
	s.states, s.accounts, s.files = u.states, u.accounts, u.files
	s.now.Store(u.next)
	return nil
}

// update is one on its way.
type update struct {
	set       *Set
	old, next *snapshot
	states    map[stateKey]*state
	accounts  map[string]*account
	files     map[string]*followed
}

// open makes sure that a provider's file of credentials is followed.
func (u *update) open(i int, p *Provider) error {
	f, isFile := p.Credentials.(file)
	if !isFile || u.files[f.path] != nil {
		return nil
	}
	if u.files[f.path] = u.set.files[f.path]; u.files[f.path] != nil {
		return nil
	}
	followed, err := follow(f.path, u.set.clock, func(err error) {
		u.set.opts.Logger.Error("providers: a file of credentials can't be used, what it held is kept", "error", err)
	})
	if err != nil {
		delete(u.files, f.path)
		return &ConfigError{Index: i, Provider: p.Name, Field: "Credentials", Reason: "can't be read", Err: err}
	}
	u.files[f.path] = followed
	return nil
}

// undo closes what was opened.
func (u *update) undo() {
	for path, f := range u.files {
		if u.set.files[path] != f {
			f.files.Close()
		}
	}
}

func (u *update) add(p *Provider, base *url.URL) {
	a := u.account(p)
	models := p.Models
	p.Models = nil
	for i := range models {
		o := u.offer(p, &models[i], base, a)
		u.next.models[o.model.Name] = append(u.next.models[o.model.Name], o)
		u.next.all = append(u.next.all, o)
	}
	if len(p.Paths) > 0 {
		o := u.offer(p, &Model{}, base, a)
		for _, path := range p.Paths {
			u.next.paths[path] = o
		}
	}
}

func (u *update) account(p *Provider) *account {
	a := u.set.accounts[p.Name]
	if a == nil || !same(a.given, p.Credentials) || !same(a.kind, p.Kind) || a.url != p.URL {
		a = &account{source: p.Credentials, pool: u.set.pool, given: p.Credentials, kind: p.Kind, url: p.URL}
		if f, isFile := p.Credentials.(file); isFile {
			a.source = u.files[f.path]
		}
	}
	u.accounts[p.Name] = a
	return a
}

// same reports whether two values, of whatever type, surely are.
func same(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

func (u *update) offer(p *Provider, m *Model, base *url.URL, a *account) *Offer {
	o := &Offer{
		from: *p, model: *m, url: base, account: a, set: u.set,
		labels: merged(p.Labels, m.Labels), apis: p.APIs,
	}
	if o.apis == nil {
		o.apis = p.Kind.APIs(p)
	}
	o.apis = taken(o.apis, m.APIs)
	o.codec, o.target = p.Kind.Codec()
	if k, ok := p.Kind.(Modeled); ok {
		o.codec = k.CodecOf(m.Upstream)
	}
	if m.APIs != nil && !slices.Contains(m.APIs, prompt.Chat) && !slices.Contains(m.APIs, prompt.Messages) &&
		!slices.Contains(m.APIs, prompt.Responses) {
		o.codec = nil // no model for conversations
	}
	o.price(u.set.opts.Prices)
	o.state = u.state(p, m)
	if old := u.same(o); old != nil {
		return old
	}
	u.set.count++
	o.id = p.Name + "/" + m.Name + "@" + strconv.Itoa(u.set.count)
	return o
}

// taken are the APIs of a provider that a model takes.
func taken(provider, model []prompt.API) []prompt.API {
	return slices.DeleteFunc(slices.Clone(provider), func(a prompt.API) bool {
		if model == nil {
			return a == prompt.Embeddings
		}
		return !slices.Contains(model, a)
	})
}

func (u *update) state(p *Provider, m *Model) *state {
	k := stateKey{p.Name, p.Kind.String(), p.URL, m.Upstream}
	if st := u.states[k]; st != nil {
		return st
	}
	st := u.set.states[k]
	if st == nil {
		st = newState(m, p.MaxConcurrent)
	} else {
		st.bound(p.MaxConcurrent)
	}
	u.states[k] = st
	return st
}

func (s *state) bound(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate.bound(most)
}

// same returns the Offer in force that is the same as o, nil if there is none.
func (u *update) same(o *Offer) *Offer {
	for _, old := range u.old.offers(o.model.Name) {
		if old.state != o.state || old.account != o.account || !same(old.from.Kind, o.from.Kind) {
			continue
		}
		a, b := old.from, o.from
		// Compared already, and perhaps of types that are never equal.
		a.Kind, b.Kind, a.Credentials, b.Credentials = nil, nil, nil, nil
		if reflect.DeepEqual(a, b) && reflect.DeepEqual(old.model, o.model) && reflect.DeepEqual(old.prices, o.prices) {
			return old
		}
	}
	return nil
}

// offers are those of a model, or of paths.
func (s *snapshot) offers(model string) []*Offer {
	if model != "" {
		return s.models[model]
	}
	var all []*Offer
	for _, o := range s.paths {
		all = append(all, o)
	}
	return all
}

// price looks up what the model costs, and what else the list says of it.
func (o *Offer) price(t *price.Table) {
	m := &o.model
	listed := find(t, &o.from, m.Upstream)
	if listed != nil {
		o.prices = listed
		if m.ContextWindow == 0 {
			m.ContextWindow = within(listed.MaxInput)
		}
		if m.MaxOutput == 0 {
			m.MaxOutput = within(listed.MaxOutput)
		}
		m.Capabilities.listed(listed.Supports, SupportYes)
		m.Capabilities.listed(listed.Lacks, SupportNo)
	}
	if m.Prices != nil {
		o.prices = &price.Entry{Provider: o.from.Name, Model: m.Upstream, Prices: *m.Prices}
	}
}

// within is a number of tokens that a list has; a silly one is unknown.
func within(n int64) int {
	if n < 0 || n > maxTokens {
		return 0
	}
	return int(n)
}

// find prefers what is said of the provider by its own name, then by its kind's, then of any.
func find(t *price.Table, p *Provider, model string) *price.Entry {
	if t == nil || model == "" {
		return nil
	}
	own := t.Find(p.Name, model)
	if own != nil && own.Provider != price.Any {
		return own
	}
	if k, ok := p.Kind.(Listed); ok {
		if name := k.ListName(p); name != "" {
			if e := t.Find(name, model); e != nil {
				return e
			}
		}
	}
	return own
}

// listed takes over what a list says, where the configuration says nothing.
func (c *Capabilities) listed(features []string, is Support) {
	for _, s := range []struct {
		name string
		into *Support
	}{
		{"vision", &c.Images},
		{"pdf_input", &c.Documents},
		{"audio_input", &c.Audio},
		{"function_calling", &c.Tools},
		{"response_schema", &c.JSONSchema},
		{"reasoning", &c.Reasoning},
	} {
		if *s.into == SupportUnknown && slices.Contains(features, s.name) {
			*s.into = is
		}
	}
}
