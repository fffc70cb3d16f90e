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

// models answers GET /v1/models with the union of what the fleet serves.
func (t *Transport) models(req *http.Request) (*http.Response, error) {
	served := t.router.fleet.Snapshot().Models()
	list := modelList{Object: "list", Data: make([]modelItem, 0, len(served))}
	for i := range served {
		list.Data = append(list.Data, itemOf(&served[i]))
	}
	return answerJSON(req, list)
}

// model answers GET /v1/models/{name}; a worker knows only its own.
func (t *Transport) model(req *http.Request, name string) (*http.Response, error) {
	snap := t.router.fleet.Snapshot()
	served := snap.Models()
	for i := range served {
		if served[i].Name == name {
			return answerJSON(req, itemOf(&served[i]))
		}
	}
	return nil, unservable(name, snap)
}

func answerJSON(req *http.Request, v any) (*http.Response, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, &Error{Code: CodeUpstream, Message: "the answer can't be encoded", Err: err}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":   {"application/json"},
			"Content-Length": {strconv.Itoa(len(body))},
		},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}
