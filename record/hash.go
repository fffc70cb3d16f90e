package record

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"maps"
	"slices"

	"github.com/kvsteer/kvsteer"
)

// veil replaces names by what stands for them. It is not safe for concurrent use.
type veil struct {
	tenants, labels bool
	mac             hash.Hash
	known           map[string]string
}

const (
	// maxVeiled bounds the names whose hashes are remembered.
	maxVeiled = 1 << 14
	// veilBytes of a hash make two names with the same one unlikely enough.
	veilBytes = 8
	// veilMark begins what stands for a name, so that nobody takes it for one.
	veilMark = "#"
)

// newVeil returns nil if there is nothing to hide.
func newVeil(o *Options) *veil {
	if !o.HashTenants && !o.HashLabels {
		return nil
	}
	key := slices.Clone(o.HashKey)
	if len(key) == 0 {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // it never fails
	}
	return &veil{tenants: o.HashTenants, labels: o.HashLabels, mac: hmac.New(sha256.New, key), known: map[string]string{}}
}

func (v *veil) name(s string) string {
	if s == "" {
		return "" // none is no secret
	}
	if h, ok := v.known[s]; ok {
		return h
	}
	v.mac.Reset()
	_, _ = v.mac.Write([]byte(s)) // it never fails
	h := veilMark + hex.EncodeToString(v.mac.Sum(nil)[:veilBytes])
	if len(v.known) >= maxVeiled {
		clear(v.known)
	}
	v.known[s] = h
	return h
}

// over returns d as it is to be written; d itself belongs to others.
func (v *veil) over(d *kvsteer.Decision) *kvsteer.Decision {
	if v == nil {
		return d
	}
	hidden := *d
	if v.tenants {
		hidden.Request.Tenant = v.name(d.Request.Tenant)
	}
	hidden.Candidates = v.candidates(d.Candidates, d.Rule)
	if d.Prefill != nil {
		p := *d.Prefill
		p.Candidates = v.candidates(p.Candidates, p.Rule)
		hidden.Prefill = &p
	}
	return &hidden
}

// candidates hides labels, and in any case the conditions of a rule that dropped
// some: they quote names.
func (v *veil) candidates(list []kvsteer.DecisionCandidate, rule string) []kvsteer.DecisionCandidate {
	list = slices.Clone(list)
	for i := range list {
		c := &list[i]
		if c.DroppedBy != "" {
			c.DroppedBy = rule
		}
		if !v.labels || len(c.Labels) == 0 {
			continue
		}
		c.Labels = maps.Clone(c.Labels)
		for key, value := range c.Labels {
			c.Labels[key] = v.name(value)
		}
	}
	return list
}
