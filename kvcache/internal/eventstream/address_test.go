package eventstream

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseDial(t *testing.T) {
	for address, want := range map[string]Address{
		"tcp://10.0.0.7:5557":      {"tcp", "10.0.0.7:5557", "tcp://10.0.0.7:5557"},
		"tcp://engine-0.svc:1":     {"tcp", "engine-0.svc:1", "tcp://engine-0.svc:1"},
		"tcp://[fd00::7]:65535":    {"tcp", "[fd00::7]:65535", "tcp://[fd00::7]:65535"},
		"ipc:///run/engine/events": {"unix", "/run/engine/events", "ipc:///run/engine/events"},
		"ipc://@abstract":          {"unix", "@abstract", "ipc://@abstract"},
	} {
		got, err := ParseDial(address)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for address, reason := range map[string]string{
		"":                     "no address",
		"10.0.0.7:5557":        "scheme is missing",
		"udp://10.0.0.7:5557":  "only tcp://host:port and ipc://path",
		"inproc://x":           "only tcp://host:port and ipc://path",
		"tcp://":               "must be given as tcp://host:port",
		"tcp://10.0.0.7":       "must be given as tcp://host:port",
		"tcp://fd00::7:5557":   "must be given as tcp://host:port",
		"tcp://10.0.0.7:":      "port must be a number",
		"tcp://10.0.0.7:-1":    "port must be a number",
		"tcp://10.0.0.7:65536": "port must be a number",
		"tcp://10.0.0.7:0":     "port 0",
		"tcp://:5557":          "host is missing",
		"tcp://*:5557":         "for example tcp://10.0.0.7:5557",
		"tcp://0.0.0.0:5558":   "for example tcp://10.0.0.7:5558",
		"tcp://[::]:5557":      "where the engine listens",
		"tcp://a;b:5557":       "plain host name",
		"tcp://u@h:5557":       "plain host name",
		"ipc://":               "path is missing",
		"ipc://@":              "path is missing",
		"ipc://a\x00b":         "path is missing or not a path",
		"ipc:///" + strings.Repeat("x", maxIPCPath): "holds at most",
	} {
		_, err := ParseDial(address)
		var bad *AddressError
		require.ErrorAs(t, err, &bad, "%q", address)
		require.Equal(t, address, bad.Address)
		require.Contains(t, bad.Reason, reason, "%q", address)
	}
}

func TestParseListen(t *testing.T) {
	for address, target := range map[string]string{
		"tcp://*:5557":      ":5557",
		"tcp://*:0":         ":0",
		"tcp://127.0.0.1:0": "127.0.0.1:0",
		"tcp://[::]:5557":   "[::]:5557",
		"ipc://x":           "x",
	} {
		got, err := ParseListen(address)
		require.NoError(t, err)
		require.Equal(t, target, got.Target)
	}
	for _, address := range []string{"", "*:5557", "tcp://*", "tcp://*:*"} {
		_, err := ParseListen(address)
		require.Error(t, err, "%q", address)
	}
	events, replay, err := ParsePublisher("", "")
	require.NoError(t, err)
	require.Equal(t, DefaultEvents, events.URI)
	require.Zero(t, replay)
	_, _, err = ParsePublisher("", "x")
	require.ErrorContains(t, err, "replay: ")
}

func FuzzParseDial(f *testing.F) {
	for _, s := range []string{"tcp://10.0.0.7:5557", "ipc:///x", "tcp://[::1]:1", "tcp://*:1", "", "tcp://:::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseDial(s)
		if (err == nil) != (a != Address{}) {
			t.Fatalf("%q: %+v and %v", s, a, err)
		}
		if err == nil && a.URI != s {
			t.Fatalf("%q became %q", s, a.URI)
		}
	})
}
