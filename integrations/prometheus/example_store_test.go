package prometheus_test

import (
	"fmt"

	"github.com/kvsteer/kvsteer/integrations/prometheus"
)

// What routers share in Redis is asked when it is scraped. limiter and exchange are of package
// tenancy/redis; here they only have its Stats.
func ExampleOptions_redis() {
	var limiter limiterOfRedis
	var exchange exchangeOfRedis
	o := prometheus.Options{
		LimitStore: func() prometheus.LimitStore { return prometheus.LimitStore(limiter.Stats()) },
		Carrier:    func() prometheus.Carrier { return prometheus.Carrier(exchange.Stats()) },
	}
	if _, err := prometheus.New(o); err != nil {
		panic(err)
	}
	fmt.Println(o.LimitStore().Waiting, o.Carrier().Published)
	// Output: 2 7
}

type limiterOfRedis struct{}

func (limiterOfRedis) Stats() statsOfRedis { return statsOfRedis{Running: 1, Waiting: 2} }

type statsOfRedis struct {
	Running, Waiting                  int
	Without, Expired, Dropped, Failed uint64
	Down                              error
}

type exchangeOfRedis struct{}

func (exchangeOfRedis) Stats() exchangeStatsOfRedis { return exchangeStatsOfRedis{Published: 7} }

type exchangeStatsOfRedis struct {
	Published, Failed, Received, Malformed, OtherVersion, Lost, SentBytes, ReceivedBytes uint64
}
