package record

import (
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// Version is the version of the format that is written, and the only one that is read.
// It grows when a reader of the one before would misunderstand; new fields don't
// change it.
const Version = 1

// Header begins every log, and every file of one. Where one file holds what several
// Recorders wrote each begins with its own. They may take turns: see Entry.Run.
type Header struct {
	Version int `json:"version"`
	// Run tells what one Recorder wrote from what others did. Decisions are numbered
	// within it.
	Run string `json:"run"`
	// Created is when the Recorder began, not the file.
	Created time.Time `json:"created"`
	// Sample: one of so many requests is recorded. 0 means all.
	Sample int `json:"sample_one_in,omitempty"`
	// HashedTenants and HashedLabels: see [Options].
	HashedTenants bool `json:"hashed_tenants,omitempty"`
	HashedLabels  bool `json:"hashed_labels,omitempty"`
	// Headers are the names of the headers that are recorded, as in [net/http.Header].
	Headers []string `json:"headers,omitempty"`
}

// Entry is one line of a log. One of Header, Decision, Outcome, Lost and Damage is
// set.
type Entry struct {
	// Line counts from 1.
	Line int
	// Run is that of the Header of the Recorder that wrote it. Logs of before it was
	// written into each line have it from the last Header above. Of Damage it is "".
	Run string
	// At is when it happened; of a Header it is zero.
	At     time.Time
	Header *Header
	// Decision has everything that the router recorded, the headers that Header names
	// among it, and the Trust of its candidates by which policies go. Its Features are nil if they
	// were not recorded. It is valid: its indices are within its lists.
	Decision *kvsteer.Decision
	// Rejected is why nobody was chosen, the name of a [kvsteer.Code]; "" for a
	// decision that chose somebody.
	Rejected string
	Outcome  *Outcome
	Lost     *Lost
	// Damage says why a line could not be read; the rest of the log may be fine.
	Damage string
}

// Outcome is how a request ended.
type Outcome struct {
	// Decision is the number of its last attempt's decision.
	Decision uint64 `json:"decision"`
	// TTFT is the time from the last attempt's start to its first token, 0 if there was
	// none or nobody saw it. Duration is the time from Select to the end.
	TTFT     time.Duration `json:"ttft_ns"`
	Duration time.Duration `json:"duration_ns"`
	// Usage is what the engine reported, CachedPredicted the cached tokens that the
	// router predicted.
	Usage           kvsteer.Usage `json:"usage"`
	CachedPredicted int           `json:"cached_predicted"`
	// Error is the kind of error that ended it: the name of a [kvsteer.Code], or
	// "canceled", "deadline exceeded" or "failed"; "" if it was answered. What the error
	// said is not recorded: engines quote prompts in theirs.
	Error  string `json:"error,omitempty"`
	Reaped bool   `json:"reaped,omitempty"`
	// Left says that the request's sender went away, or its own deadline passed: Error is then
	// nobody's failure.
	Left bool `json:"left,omitempty"`
	// Moved says that a proxy in front went to another worker than the decision's, and
	// Served to which, "" if the fleet did not know it. TTFT is that one's then.
	Moved  bool   `json:"moved,omitempty"`
	Served string `json:"served,omitempty"`
}

// Lost says that entries are missing at this place.
type Lost struct {
	Entries uint64 `json:"entries"`
	// Reason is one of the Lost constants.
	Reason string `json:"reason"`
}

// Why entries are missing.
const (
	LostBuffer = "buffer full"
	LostWrite  = "write failed"
	LostEncode = "not encodable"
)

// line is what a line holds.
type line struct {
	Header *Header `json:"kvsteer_log,omitempty"`
	// Run is in every line but the header, which has its own.
	Run      string     `json:"run,omitempty"`
	At       *time.Time `json:"at,omitempty"`
	Decision *decision  `json:"decision,omitempty"`
	Rejected string     `json:"rejected,omitempty"`
	// Headers are of the decision's request.
	Headers map[string][]string `json:"headers,omitempty"`
	Outcome *Outcome            `json:"outcome,omitempty"`
	Lost    *Lost               `json:"lost,omitempty"`
}

// decision is a Decision with Features that have names of their own, so that the
// format does not depend on those of Go.
type decision struct {
	*kvsteer.Decision

	Features []features `json:"features,omitempty"`
}

// features are in the order of the candidates. Model and Worker are left out where
// they are the candidate's.
type features struct {
	Model        string        `json:"model,omitempty"`
	Class        string        `json:"class,omitempty"`
	Worker       string        `json:"worker,omitempty"`
	Uncached     int           `json:"uncached_tokens"`
	Cached       int           `json:"cached_tokens"`
	AheadTokens  int           `json:"ahead_tokens"`
	AheadPairs   float64       `json:"ahead_pairs"`
	Waiting      int           `json:"waiting"`
	Decoding     int           `json:"decoding"`
	KVUsage      float64       `json:"kv_usage"`
	ReportAge    time.Duration `json:"report_age_ns"`
	OutputTokens int           `json:"output_tokens,omitempty"`
}

// featuresOf leaves out what c says.
func featuresOf(f *kvsteer.Features, c *policy.Candidate) features {
	out := features(*f)
	if out.Model == c.Model {
		out.Model = ""
	}
	if out.Worker == c.Name {
		out.Worker = ""
	}
	return out
}

// of is the inverse of featuresOf.
func (f features) of(c *policy.Candidate) kvsteer.Features {
	if f.Model == "" {
		f.Model = c.Model
	}
	if f.Worker == "" {
		f.Worker = c.Name
	}
	return kvsteer.Features(f)
}
