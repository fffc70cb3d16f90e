package prometheus

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// DefaultMaxSeries is enough for 200 workers, 30 models and 400 tenants.
const DefaultMaxSeries = 20_000

// minSeries leaves room for a few workers, models and tenants.
const minSeries = 4_000

// Options configure [New]. The zero value works.
type Options struct {
	// MaxSeries bounds the series, a histogram's buckets each counted. 0 means
	// [DefaultMaxSeries]; at least 4,000.
	MaxSeries int
	// TTFTBuckets are the upper bounds of the buckets of kvsteer_ttft_seconds, in seconds
	// and ascending, at most 40: a target that is to be alerted on must be one of them. Nil
	// means 10 ms to 60 s with all that the alert rules name.
	TTFTBuckets []float64
	// NativeHistograms makes histograms native ones beside the classic: finer, and cheaper to
	// store. A server that scrapes them drops the classic buckets, which the dashboard and
	// the alerts read, unless it is told always to scrape those too.
	NativeHistograms bool

	// Limiter and Ledger, if not nil, are shown as well: a [quota.Limiter], and a
	// [ledger.Ledger]. For limits in Redis see LimitStore and [Metrics.BudgetNotice].
	Limiter Limiter
	Ledger  Ledger

	// LimitStore and Carrier, if not nil, are asked at each scrape, by several at once: how
	// shared limits are doing, and what the exchange of kvsteer.WithReplicas has carried. They
	// must not wait for anybody.
	LimitStore func() LimitStore
	Carrier    func() Carrier

	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// Limiter is what is read of limits: a [quota.Limiter] has it.
type Limiter interface {
	Totals() quota.Totals
	Budgets() []quota.BudgetUse
}

// Ledger is what is read of a ledger: a [ledger.Ledger] has it.
type Ledger interface {
	Stats() ledger.Stats
}

// maxBuckets keeps one histogram from taking the budget of all.
const maxBuckets = 40

func (o *Options) fill() error {
	if o.MaxSeries == 0 {
		o.MaxSeries = DefaultMaxSeries
	}
	if o.MaxSeries < minSeries {
		return fmt.Errorf("prometheus: MaxSeries is %d; give at least %d, or 0 for %d", o.MaxSeries, minSeries, DefaultMaxSeries)
	}
	if o.TTFTBuckets == nil {
		o.TTFTBuckets = ttftBuckets
	}
	if n := len(o.TTFTBuckets); n == 0 || n > maxBuckets {
		return fmt.Errorf("prometheus: TTFTBuckets has %d bounds; give 1 to %d, or nil", n, maxBuckets)
	}
	for i, b := range o.TTFTBuckets {
		if !(b > 0) || i > 0 && b <= o.TTFTBuckets[i-1] {
			return errors.New("prometheus: TTFTBuckets must be seconds, more than 0 and ascending")
		}
	}
	o.TTFTBuckets = slices.Clone(o.TTFTBuckets)
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

// Bounds of buckets, in seconds, tokens and as a ratio. The ones that matter to people are
// round numbers, so that targets can be read off.
//
//nolint:gochecknoglobals // a table that nothing changes
var (
	ttftBuckets   = []float64{.01, .025, .05, .1, .2, .3, .5, .75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 30, 60}
	itlBuckets    = []float64{.002, .005, .01, .015, .02, .03, .04, .05, .075, .1, .15, .2, .3, .5, 1, 2.5}
	e2eBuckets    = []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200}
	promptBuckets = []float64{16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 1048576}
	outputBuckets = []float64{1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768}
	ratioBuckets  = []float64{.1, .2, .33, .5, .67, .8, .9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10}
	selectBuckets = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	waitBuckets   = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
)
