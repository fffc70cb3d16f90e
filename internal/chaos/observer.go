package chaos

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

// observer is told what the router tells, and keeps what the checks need of it.
type observer struct {
	mu sync.Mutex
	// firsts counts first attempts, outcomes the ends by the last decision's number.
	firsts   int
	outcomes map[uint64]int
	previous map[uint64]bool // decisions that another one followed
	decided  map[uint64]bool
	members  []*fleet.Member
	lost     int
	reaped   int
	leaked   string // the first record that holds what none may
	tally    *Tally
}

// OnDecision implements kvsteer.HookDecision.
func (o *observer) OnDecision(d *kvsteer.Decision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.outcomes == nil {
		o.outcomes, o.previous, o.decided = make(map[uint64]int), make(map[uint64]bool), make(map[uint64]bool)
	}
	if d.Attempt == 1 {
		o.firsts++
	}
	if d.Attempt > 1 {
		o.tally.add("retry")
	}
	if c := d.Winner(); c != nil && c.Type == policy.Provider {
		o.tally.add("served by the provider")
	}
	o.decided[d.ID] = true
	if d.Previous != 0 {
		o.previous[d.Previous] = true
	}
	o.read("decision", d)
	o.readText("decision", d.String())
}

// OnOutcome implements kvsteer.HookOutcome.
func (o *observer) OnOutcome(e *kvsteer.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcomes[e.Decision.ID]++
	if e.Err != nil {
		o.readText("outcome", e.Err.Error())
	}
}

// OnRejection implements kvsteer.HookRejection.
func (o *observer) OnRejection(d *kvsteer.Decision, e *kvsteer.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.read("rejection", d)
	o.readText("rejection", e.Error())
}

// OnRefusal implements kvsteer.HookRefusal.
func (o *observer) OnRefusal(f *kvsteer.Refusal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tally.refused(f.Err.Code)
	o.readText("refusal", f.Err.Error())
}

// OnTrust implements kvsteer.HookTrust.
func (o *observer) OnTrust(c kvsteer.TrustChange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.To == kvcache.Resyncing {
		o.tally.add("resync")
	}
	o.readText("change of trust", fmt.Sprintf("%+v", c))
}

// OnPromptMismatch implements kvsteer.HookPrompt.
func (o *observer) OnPromptMismatch(m *prompt.Mismatch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.readText("prompt mismatch", fmt.Sprintf("%s %+v", m, *m))
}

// OnReap implements kvsteer.HookReap.
func (o *observer) OnReap(uint64, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reaped++
}

func (o *observer) onChange(c fleet.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Kind == fleet.Added {
		o.members = append(o.members, c.Member)
	}
}

func (o *observer) onLost(*ledger.Record, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost++
}

// read looks into a record. o.mu is held.
func (o *observer) read(what string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte("not JSON: " + err.Error())
	}
	o.readText(what, string(text))
}

func (o *observer) readText(what, text string) {
	if o.leaked == "" && leaked(text) != "" {
		o.leaked = fmt.Sprintf("%s: %.300s", what, text)
	}
}

// secrets are the words that nobody but the engine, or the provider, may be told.
func secrets() []string { return []string{canary, secret, providerKey} }

// leaked returns the first of the secrets in a text, "" if there is none.
func leaked(text string) string {
	for _, word := range secrets() {
		if strings.Contains(text, word) {
			return word
		}
	}
	return ""
}

// ended reports how many Selections began and ended, and how many ended otherwise than once.
func (o *observer) ended() (begun, ended, wrong int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, n := range o.outcomes {
		ended += n
		if n != 1 || o.previous[id] || !o.decided[id] {
			wrong++
		}
	}
	return o.firsts, ended, wrong
}

func (o *observer) leak() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.leaked
}

func (o *observer) everyMember() []*fleet.Member {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*fleet.Member{}, o.members...)
}
