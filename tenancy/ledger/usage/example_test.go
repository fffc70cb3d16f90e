package usage_test

import (
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

// What two tenants used in November, one record of them read twice.
func ExampleTally() {
	tally, err := usage.New(usage.Query{By: []usage.Field{usage.Tenant}})
	if err != nil {
		panic(err)
	}
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, r := range []ledger.Record{
		{ID: "a", Attempt: 1, State: ledger.Settled, At: at, Tenant: "acme", Model: "m", Uncached: 100, Output: 10},
		{ID: "b", Attempt: 1, State: ledger.Settled, At: at, Tenant: "zoo", Model: "m", Uncached: 50, Output: 5},
		{ID: "a", Attempt: 1, State: ledger.Settled, At: at, Tenant: "acme", Model: "m", Uncached: 100, Output: 10},
	} {
		tally.Add(&r)
	}
	report := tally.Report()
	for _, row := range report.Rows {
		fmt.Println(row.Of[usage.Tenant], row.Used.Output)
	}
	fmt.Println(report.Doubles, "double")
	// Output:
	// acme 10
	// zoo 5
	// 1 double
}
