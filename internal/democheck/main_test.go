package main

import (
	"io"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	const (
		rr   = `{"router":"round-robin","ttft_p50_s":1.0,"ttft_p95_s":2.0,"e2e_p50_s":3.0,"hit_rate":0.3}`
		fast = `{"router":"kvsteer","ttft_p50_s":0.1,"ttft_p95_s":0.2,"e2e_p50_s":1.0,"hit_rate":0.9}`
		slow = `{"router":"kvsteer","ttft_p50_s":0.5,"ttft_p95_s":0.6,"e2e_p50_s":1.0,"hit_rate":0.9}`
	)
	shared := func(rows ...string) string {
		return `{"workloads":[{"name":"shared-prefix","rows":[` + strings.Join(rows, ",") + `]}]}`
	}
	tests := []struct {
		name, in, wantErr string
	}{
		{name: "as claimed", in: shared(rr, fast)},
		{name: "other fields", in: `{"seed":1,` + shared(rr, fast)[1:] + "\n"},
		{name: "too slow", in: shared(rr, slow), wantErr: "2.00 times"},
		{name: "one router", in: shared(fast), wantErr: "round-robin"},
		{name: "nothing measured", in: shared(rr, strings.Replace(fast, "0.1", "0", 1)), wantErr: "ttft_p50_s is 0"},
		{name: "quantiles crossed", in: shared(rr, strings.Replace(fast, "0.2", "0.01", 1)), wantErr: "below"},
		{name: "answered before it began", in: shared(rr, strings.Replace(fast, `"e2e_p50_s":1.0`, `"e2e_p50_s":0.01`, 1)), wantErr: "e2e_p50_s"},
		{name: "hit rate in percent", in: shared(rr, strings.Replace(fast, "0.9", "90", 1)), wantErr: "hit_rate"},
		{name: "another workload only", in: strings.Replace(shared(rr, fast), "shared-prefix", "multi-turn", 1), wantErr: "no workload"},
		{name: "empty", in: "", wantErr: "no report"},
		{name: "a table", in: "router  ttft\n", wantErr: "no report"},
		{name: "two objects", in: shared(rr, fast) + shared(rr, fast), wantErr: "more than one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := check(strings.NewReader(tt.in), io.Discard, defaultRatio)
			switch {
			case tt.wantErr == "" && err != nil:
				t.Errorf("check: %v", err)
			case tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)):
				t.Errorf("check = %v, want an error about %q", err, tt.wantErr)
			}
		})
	}
}
