package prometheus

import "github.com/kvsteer/kvsteer/kvcache/prompt"

// How many values the labels may have that come from configuration, "other" included.
const (
	maxRules     = 64
	maxShadows   = 16
	maxLimits    = 32
	maxProviders = 16
	maxOffers    = 32
	maxFallbacks = 48
	maxTrust     = 64
	maxReasons   = 16
)

// shares are how many workers, models and tenants have series of their own.
type shares struct{ workers, models, tenants int }

// share divides the series among them. What one does not use is not given to another: a
// bound that others move is none.
func share(o *Options) shares {
	rest := o.MaxSeries - fixedSeries()
	part := rest / 4
	return shares{
		workers: 2*part/workerSeries - 1, // one is for all others
		models:  part/modelSeries(len(o.TTFTBuckets)) - 1,
		tenants: part/tenantSeries - 1,
	}
}

// fixedSeries are those that depend on nobody's number.
func fixedSeries() int {
	const rejections = 16 // codes of errors
	const few = 64        // queue, targets, index, ledger, limits and the like, a test counts
	return prompt.NumSources*(lines(len(selectBuckets))+2+1) + lines(len(waitBuckets)) + rejections +
		2*maxRules + 2*maxShadows + limitSeries*maxLimits + providerSeries*maxProviders + offerSeries*maxOffers +
		maxFallbacks + maxTrust + maxReasons + indexSeries + replicaSeries + storeSeries + few
}
