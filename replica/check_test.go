package replica_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/replica"
)

func TestCheck(t *testing.T) {
	good := func() *replica.Message {
		return &replica.Message{
			Version: replica.Version, Router: "a", Epoch: 1, Seq: 1,
			Loads: []replica.Load{{
				Instance: strings.Repeat("i", replica.MaxName), Rank: replica.MaxRank, PrefillRequests: replica.MaxAmount,
				PrefillTokens: replica.MaxAmount, PrefillPairs: replica.MaxPairs, PrefillFor: replica.MaxTime,
				DecodeRequests: replica.MaxAmount, OutputTokens: replica.MaxAmount, ContextTokens: replica.MaxAmount,
			}},
			Bookings: []replica.Booking{{Instance: "i", Keys: make([]kvcache.Key, replica.MaxKeys), TTL: replica.MaxTime}},
		}
	}
	require.NoError(t, good().Check())
	for says, spoil := range map[string]func(*replica.Message){
		"epoch is 0":                 func(m *replica.Message) { m.Epoch = 0 },
		"sequence number is 0":       func(m *replica.Message) { m.Seq = 0 },
		"router's name has 257":      func(m *replica.Message) { m.Router = strings.Repeat("r", 257) },
		"router's name is not UTF-8": func(m *replica.Message) { m.Router = "\xff" },
		"8193 loads":                 func(m *replica.Message) { m.Loads = make([]replica.Load, 8193) },
		"1025 bookings":              func(m *replica.Message) { m.Bookings = make([]replica.Booking, 1025) },
		"16385 keys": func(m *replica.Message) {
			m.Bookings = append(m.Bookings, m.Bookings[0])
			m.Bookings[1].Keys = m.Bookings[0].Keys[:1]
		},
		"no name (load 0)":                    func(m *replica.Message) { m.Loads[0].Instance = "" },
		"no name (booking 0)":                 func(m *replica.Message) { m.Bookings[0].Instance = "" },
		"name has 257 bytes":                  func(m *replica.Message) { m.Loads[0].Instance += "i" },
		"name is not UTF-8":                   func(m *replica.Message) { m.Loads[0].Instance = "\xc0" },
		"rank is -1":                          func(m *replica.Message) { m.Loads[0].Rank = -1 },
		"rank is 1024":                        func(m *replica.Message) { m.Bookings[0].Rank = 1024 },
		"amount is -1, not":                   func(m *replica.Message) { m.Loads[0].PrefillRequests = -1 },
		"amount is -2, not":                   func(m *replica.Message) { m.Loads[0].PrefillTokens = -2 },
		"amount is -3, not":                   func(m *replica.Message) { m.Loads[0].DecodeRequests = -3 },
		"amount is -4, not":                   func(m *replica.Message) { m.Loads[0].OutputTokens = -4 },
		"amount is -5, not":                   func(m *replica.Message) { m.Loads[0].ContextTokens = -5 },
		"pairs are -1":                        func(m *replica.Message) { m.Loads[0].PrefillPairs = -1 },
		"pairs are 9007199254740993":          func(m *replica.Message) { m.Loads[0].PrefillPairs++ },
		"prefill lasts for -1ns":              func(m *replica.Message) { m.Loads[0].PrefillFor = -1 },
		"prefill lasts for 24h0m0.000000001s": func(m *replica.Message) { m.Loads[0].PrefillFor++ },
		"counts for -1s":                      func(m *replica.Message) { m.Bookings[0].TTL = -time.Second },
		"counts for 24h0m0.000000001s":        func(m *replica.Message) { m.Bookings[0].TTL++ },
	} {
		m := good()
		spoil(m)
		err := m.Check()
		require.ErrorIs(t, err, replica.ErrBounds, says)
		require.ErrorContains(t, err, says)
	}
}
