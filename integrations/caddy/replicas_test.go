package kvsteercaddy

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/redistest"
)

// beats are those of a busy machine, on which replicas may lose sight of each other for a
// while.
const beats = 2 * time.Minute

// gateways makes one Caddy two gateways, a and b: each has a list of workers of its own, so
// that they know of each other through Redis only.
func (r *rig) gateways(more string) string {
	return `@b header Gateway b
kvsteer @b {
	fleet DIR/b.yaml
	redis {env.KVSTEER_REDIS} {
		channel chat
		name b
	}
	` + more + `
}
kvsteer {
	fleet DIR/fleet.yaml
	redis {env.KVSTEER_REDIS} {
		channel chat
		name a
	}
	` + more + `
}`
}

// gateway is the latest of a fleet's routers.
func (r *rig) gateway(list string) routerStatus {
	for _, s := range slices.Backward(r.status()) {
		if s.Fleet == r.path(list) && s.State == serving {
			return s
		}
	}
	return routerStatus{}
}

// knows waits until a gateway sees its peers, and so many of their requests.
func (r *rig) knows(list string, requests int, peers ...string) {
	r.t.Helper()
	if peers == nil {
		peers = []string{}
	}
	var s routerStatus
	require.Eventually(r.t, func() bool {
		s = r.gateway(list)
		return s.Replicas != nil && s.Replicas.Up && slices.Equal(s.Replicas.Peers, peers) && len(s.Workers) == 1 && s.Workers[0].Routable && s.Workers[0].Elsewhere == requests
	}, beats, moment, "%s: %d of %v; %+v", list, requests, peers, &s)
}

// Two gateways know of each other's requests through a real Redis: also while one of them is
// replaced, which makes it neither two nor none, and when a configuration is refused.
func TestReplicas(t *testing.T) {
	t.Setenv("KVSTEER_REDIS", redistest.Start(t))
	r := newRig(t, fleettest.Config{})
	r.write("b.yaml", fmt.Sprintf("workers:\n  - {name: w0, url: %q}\n", r.engines[0].URL()))
	r.load(r.gateways(""))
	r.knows("fleet.yaml", 0, "b")
	r.knows("b.yaml", 0, "a")

	r.engines[0].Faults().Hang(fleettest.HangMidStream)
	resp, from := r.stream(t.Context(), "hi")
	r.knows("b.yaml", 1, "a")
	r.knows("fleet.yaml", 0, "b")

	r.load(r.gateways("max_attempts 2"))
	r.knows("b.yaml", 1, "a")
	r.knows("fleet.yaml", 0, "b")
	settle(t)
	r.knows("b.yaml", 1, "a")
	r.knows("fleet.yaml", 0, "b")

	err := caddy.Load(r.config(r.gateways("max_attempts 3")+"\nkvsteer /x {\n fleet DIR/none.yaml\n}"), true)
	require.ErrorContains(t, err, "none.yaml")
	r.knows("b.yaml", 1, "a")
	r.knows("fleet.yaml", 0, "b")

	r.engines[0].Faults().Clear()
	rest, err := io.ReadAll(from)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(rest), "[DONE]")
	r.knows("b.yaml", 0, "a")

	// One ends, and without redis nobody is told of.
	r.load("kvsteer {\n fleet DIR/fleet.yaml\n redis {env.KVSTEER_REDIS} {\n channel chat\n name a\n }\n max_attempts 2\n}")
	settle(t)
	r.knows("fleet.yaml", 0)
	r.load(plain)
	require.Nil(t, r.gateway("fleet.yaml").Replicas)
	settle(t)
	r.ready()
	require.Equal(t, http.StatusOK, r.ask("hi").status)
}

// A Redis that is away keeps no configuration from being loaded, and no request from being
// answered; a wrong address does, and neither error nor log repeats a password.
func TestRedisIsAwayOrWrong(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	t.Setenv("KVSTEER_REDIS", "unix://"+r.path("none"))
	r.load("kvsteer {\n fleet DIR/fleet.yaml\n redis {env.KVSTEER_REDIS}\n}")
	r.ready()
	require.Equal(t, http.StatusOK, r.ask("hi").status)
	require.Eventually(t, func() bool {
		s := r.gateway("fleet.yaml").Replicas
		return s != nil && !s.Up && s.Problem != ""
	}, patience, moment)

	before := rooms()
	t.Setenv("KVSTEER_REDIS", "redis://:hunter2@redis:six")
	for options, want := range map[string]string{
		"redis {env.KVSTEER_REDIS}":         "redis: url: redis: it is neither host:port nor a URL",
		"redis {env.KVSTEER_NOT_SET}":       "redis: url: ",
		"snapshot_from {env.KVSTEER_REDIS}": "snapshot_from: it is no URL that begins with http:// or https://",
		"snapshot DIR/none/caches":          "snapshot: kvsteer: no snapshot can be saved there",
	} {
		err := caddy.Load(r.config("kvsteer {\n fleet DIR/fleet.yaml\n "+options+"\n}"), true)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
		var config caddy.Config
		require.NoError(t, caddy.StrictUnmarshalJSON(r.config("kvsteer {\n fleet DIR/fleet.yaml\n "+options+"\n}"), &config))
		require.ErrorContains(t, caddy.Validate(&config), want, "caddy validate tells")
	}
	settle(t)
	require.Equal(t, before, rooms())
	require.Equal(t, http.StatusOK, r.ask("hi").status)
	require.NotContains(t, r.logs(), "hunter2")
}
