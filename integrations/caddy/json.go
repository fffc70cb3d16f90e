package kvsteercaddy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// UnmarshalJSON implements json.Unmarshaler. Errors name the option, and for one that
// does not exist the one that was probably meant.
func (h *Handler) UnmarshalJSON(data []byte) error {
	var given struct {
		Config
		Options
	}
	if err := strict(data, "", reflect.TypeOf(given)); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &given); err != nil {
		return err // its text has the option's name
	}
	h.Config, h.Options = given.Config, given.Options
	return nil
}

// MarshalJSON implements json.Marshaler.
func (h *Handler) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Config
		Options
	}{h.Config, h.Options})
}

// strict refuses keys that a type does not have, also in the objects of ours within.
func strict(data []byte, at string, t reflect.Type) error {
	switch t {
	case reflect.TypeFor[[]fleet.Worker](), reflect.TypeFor[[]follow.Endpoint]():
		var items []json.RawMessage
		if json.Unmarshal(data, &items) != nil {
			return nil //nolint:nilerr // of the wrong kind: who decodes it says so, with the option's name
		}
		for i, item := range items {
			if err := strict(item, fmt.Sprintf("%s[%d]", at, i), t.Elem()); err != nil {
				return err
			}
		}
		return nil
	default:
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var object map[string]json.RawMessage
	if bytes.Equal(data, []byte("null")) || json.Unmarshal(data, &object) != nil {
		return nil //nolint:nilerr // as above
	}
	fields := map[string]reflect.Type{}
	collect(t, fields)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		field, known := fields[key]
		if !known {
			return fmt.Errorf("%s has no option %q; %s", where(at), key, yamlnode.Suggest(key, slices.Sorted(maps.Keys(fields))))
		}
		if err := strict(object[key], strings.TrimPrefix(at+"."+key, "."), field); err != nil {
			return err
		}
	}
	return nil
}

func where(at string) string {
	if at == "" {
		return "kvsteer"
	}
	return at
}

// collect lists the keys of a struct's JSON.
func collect(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			collect(f.Type, into)
		case name != "" && name != "-":
			into[name] = f.Type
		}
	}
}
