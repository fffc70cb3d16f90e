package kvsteer

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/kvsteer/kvsteer/fleet"
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

// models answers GET /v1/models with the union of what the fleet serves, as far as the
// request may have it.
func (t *Transport) models(req *http.Request) (*http.Response, error) {
	s, refused := t.router.question(&Forward{HTTP: req, Describe: t.describe}, "")
	if refused != nil {
		return nil, refused
	}
	id := s.account.identity
	served := s.served(t.router.fleet.Snapshot())
	list := modelList{Object: "list", Data: make([]modelItem, 0, len(served))}
	for i := range served {
		if permitted(id, served[i].Name) == nil {
			list.Data = append(list.Data, itemOf(&served[i]))
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
	served := s.served(snap)
	for i := range served {
		if served[i].Name == name {
			return answerJSON(req, itemOf(&served[i]))
		}
	}
	return nil, s.unservable(snap)
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
