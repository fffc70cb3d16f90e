package kvsteer

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/policy"
)

type modelList struct {
	Object string      `json:"object"`
	Data   []modelItem `json:"data"`
}

type modelItem struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	// Created is required by OpenAI's clients. Nobody knows it here: always 0.
	Created     int64   `json:"created"`
	OwnedBy     string  `json:"owned_by"`
	Parent      *string `json:"parent"`
	MaxModelLen int     `json:"max_model_len,omitempty"`
}

func itemOf(m *fleet.ServedModel) modelItem {
	item := modelItem{ID: m.Name, Object: "model", OwnedBy: "kvsteer", MaxModelLen: m.MaxModelLen}
	if m.Parent != "" {
		item.Parent = &m.Parent
	}
	return item
}

// models answers GET /v1/models with the union of what the fleet and the providers serve,
// and the names that the policy has for that, as far as the request may have it.
func (t *Transport) models(req *http.Request) (*http.Response, error) {
	s, refused := t.router.question(&Forward{HTTP: req, Describe: t.describe}, "")
	if refused != nil {
		return nil, refused
	}
	id := s.account.identity
	all := s.catalogue(t.router.fleet.Snapshot())
	list := modelList{Object: "list", Data: make([]modelItem, 0, len(all))}
	for _, item := range all {
		if permitted(id, item.ID) == nil {
			list.Data = append(list.Data, item)
		}
	}
	return answerJSON(req, list)
}

// model answers GET /v1/models/{name}; a worker knows only its own.
func (t *Transport) model(req *http.Request, name string) (*http.Response, error) {
	snap := t.router.fleet.Snapshot()
	s, refused := t.router.question(&Forward{HTTP: req, Describe: t.describe}, name)
	if refused != nil {
		return nil, refused
	}
	for _, item := range s.catalogue(snap) {
		if item.ID == name {
			return answerJSON(req, item)
		}
	}
	return nil, s.unservable(snap)
}

// catalogue is what the request may name as its model: what workers serve, what providers
// do, and what the policy sends to either by another name; in this order, each by name.
func (s *Selection) catalogue(snap *fleet.Snapshot) []modelItem {
	served := s.served(snap)
	items := make([]modelItem, 0, len(served))
	known := make(map[string]bool, len(served))
	add := func(item modelItem) {
		if !known[item.ID] {
			known[item.ID] = true
			items = append(items, item)
		}
	}
	for i := range served {
		add(itemOf(&served[i]))
	}
	for _, name := range s.offered() {
		item := modelItem{ID: name, Object: "model", OwnedBy: "kvsteer"}
		for _, o := range s.offers(name) {
			item.MaxModelLen = max(item.MaxModelLen, o.ContextWindow())
		}
		add(item)
	}
	whole := maps.Clone(known) // an alias of an alias leads nowhere
	for _, name := range s.aliases() {
		if !known[name] && s.leads(name, whole) {
			add(modelItem{ID: name, Object: "model", OwnedBy: "kvsteer"})
		}
	}
	return items
}

// aliases are the names of models that the policy's rules match.
func (s *Selection) aliases() []string {
	set, ok := s.policy.(interface{ Mentions() *policy.Mentions })
	if !ok {
		return nil
	}
	names := slices.DeleteFunc(slices.Clone(set.Mentions().Models), func(name string) bool { return strings.Contains(name, "*") })
	slices.Sort(names)
	return slices.Compact(names)
}

// leads reports whether the policy sends requests for a model of that name to one that is
// known.
func (s *Selection) leads(name string, known map[string]bool) bool {
	p, ok := s.policy.(policy.Scoped)
	if !ok {
		return false
	}
	q := s.prompt()
	q.Model, q.Alias = name, true
	req := q.Policy()
	return slices.ContainsFunc(p.Models(&req, nil), func(model string) bool { return known[model] })
}

// served are the models of the workers that the request may go to, by name.
func (s *Selection) served(snap *fleet.Snapshot) []fleet.ServedModel {
	all := snap.Models()
	if !s.narrowed() {
		return all
	}
	var out []fleet.ServedModel
	for i := range all {
		members := s.pooled(snap.Serving(all[i].Name))
		if len(members) == 0 {
			continue
		}
		one := fleet.ServedModel{Model: all[i].Model, Members: len(members)}
		one.MaxModelLen = 0
		for _, m := range members {
			one.MaxModelLen = max(one.MaxModelLen, m.MaxModelLen(one.Name))
			if m.Routable() {
				one.Routable++
			}
		}
		out = append(out, one)
	}
	return out
}

func answerJSON(req *http.Request, v any) (*http.Response, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, &Error{Code: CodeUpstream, Message: "the answer can't be encoded", Err: err}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":   {contentJSON},
			"Content-Length": {strconv.Itoa(len(body))},
		},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}
