package providertest

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
)

// store is what the service keeps for its clients.
type store struct {
	files   []storedFile
	batches []object
}

type storedFile struct {
	about   object
	content []byte
}

const maxStored = 1000 // of each kind

// keep answers requests about what the service has or keeps.
func (x *exchange) keep() {
	switch x.endpoint {
	case models:
		x.models()
	case files:
		x.files()
	case batches:
		x.batches()
	default:
		x.fail(&problem{fault: UnknownModel, status: http.StatusNotFound, text: "there is nothing at this path"})
	}
}

func (x *exchange) models() {
	list := make([]any, 0, len(x.opts.Models))
	for _, name := range x.opts.Models {
		list = append(list, x.about(name))
	}
	switch {
	case x.r.Method != http.MethodGet:
		x.fail(&problem{fault: BadRequest, status: http.StatusMethodNotAllowed})
	case x.rest != "":
		if !slices.Contains(x.opts.Models, x.rest) {
			x.change(func() { x.r.Model = x.rest })
			x.fail(&problem{fault: UnknownModel})
			return
		}
		x.json(x.about(x.rest))
	case x.dialect == Anthropic:
		out := object{"data": list, "has_more": false, "first_id": nil, "last_id": nil}
		if n := len(x.opts.Models); n > 0 {
			out["first_id"], out["last_id"] = x.opts.Models[0], x.opts.Models[n-1]
		}
		x.json(out)
	default:
		x.json(object{"object": "list", "data": list})
	}
}

func (x *exchange) about(model string) object {
	switch x.dialect {
	case Anthropic:
		return object{"type": "model", "id": model, "display_name": model, "created_at": x.stamp()}
	case Gemini:
		return object{"id": "models/" + model, "object": "model", "owned_by": "google"}
	default:
		return object{"id": model, "object": "model", "created": x.created(), "owned_by": "system"}
	}
}

// files are kept in memory: upload, list, about one, its content, delete.
func (x *exchange) files() {
	id, tail, _ := strings.Cut(x.rest, "/")
	switch {
	case x.r.Method == http.MethodPost && x.rest == "":
		f, err := x.upload()
		if err != nil {
			x.fail(&problem{fault: BadRequest, text: "'file' is a required property", param: "file"})
			return
		}
		x.change(func() {
			if len(x.store.files) < maxStored {
				x.store.files = append(x.store.files, f)
			}
		})
		x.json(f.about)
	case x.r.Method == http.MethodGet && x.rest == "":
		list := []any{}
		x.change(func() {
			for _, f := range x.store.files {
				list = append(list, f.about)
			}
		})
		x.json(object{"object": "list", "data": list, "has_more": false})
	default:
		x.file(id, tail)
	}
}

func (x *exchange) file(id, tail string) {
	var f storedFile
	at := -1
	x.change(func() {
		at = slices.IndexFunc(x.store.files, func(f storedFile) bool { return f.about["id"] == id })
		if at < 0 {
			return
		}
		f = x.store.files[at]
		if x.r.Method == http.MethodDelete && tail == "" {
			x.store.files = slices.Delete(x.store.files, at, at+1)
		}
	})
	switch {
	case at < 0:
		x.fail(&problem{fault: BadRequest, status: http.StatusNotFound, text: "No such File object: " + id, param: "id"})
	case x.r.Method == http.MethodGet && tail == "content":
		x.change(func() { x.r.Status = http.StatusOK })
		x.w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = x.w.Write(f.content) // the client may have left
	case x.r.Method == http.MethodGet && tail == "":
		x.json(f.about)
	case x.r.Method == http.MethodDelete && tail == "":
		x.json(object{"id": id, "object": "file", "deleted": true})
	default:
		x.fail(&problem{fault: BadRequest, status: http.StatusMethodNotAllowed})
	}
}

// upload reads a form with a file and its purpose.
func (x *exchange) upload() (storedFile, error) {
	kind, params, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return storedFile{}, errors.New("not a form")
	}
	var f storedFile
	name, purpose := "", ""
	for form := multipart.NewReader(bytes.NewReader(x.r.Body), params["boundary"]); ; {
		part, err := form.NextPart()
		if err != nil {
			break
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return storedFile{}, err
		}
		switch part.FormName() {
		case "file":
			f.content, name = content, part.FileName()
		case "purpose":
			purpose = string(content)
		default:
		}
	}
	if f.content == nil || purpose == "" {
		return storedFile{}, errors.New("no file")
	}
	f.about = object{
		"id": x.id("file-"), "object": "file", "bytes": len(f.content), "created_at": x.created(), "filename": name,
		"purpose": purpose, "status": "processed",
	}
	return f, nil
}

// batches are made, and never end.
func (x *exchange) batches() {
	switch {
	case x.r.Method == http.MethodPost && x.rest == "":
		if !x.r.parse() || x.r.body["input_file_id"] == nil {
			x.fail(&problem{fault: BadRequest, text: missing("input_file_id").text, param: "input_file_id", code: "missing_required_parameter"})
			return
		}
		b := object{
			"id": x.id("batch_"), "object": "batch", "endpoint": x.r.body["endpoint"], "input_file_id": x.r.body["input_file_id"],
			"completion_window": x.r.body["completion_window"], "status": "validating", "created_at": x.created(),
		}
		x.change(func() {
			if len(x.store.batches) < maxStored {
				x.store.batches = append(x.store.batches, b)
			}
		})
		x.json(b)
	case x.r.Method == http.MethodGet:
		list := []any{}
		var one object
		x.change(func() {
			for _, b := range x.store.batches {
				list = append(list, b)
				if b["id"] == x.rest {
					one = b
				}
			}
		})
		switch {
		case x.rest == "":
			x.json(object{"object": "list", "data": list, "has_more": false})
		case one == nil:
			x.fail(&problem{fault: BadRequest, status: http.StatusNotFound, text: "No batch found with id '" + x.rest + "'."})
		default:
			x.json(one)
		}
	default:
		x.fail(&problem{fault: BadRequest, status: http.StatusMethodNotAllowed})
	}
}
