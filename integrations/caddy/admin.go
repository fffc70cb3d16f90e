package kvsteercaddy

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
)

// admin is the module admin.api.kvsteer: GET /kvsteer/status, and
// /kvsteer/snapshot for replicas that start, on Caddy's admin endpoint.
type admin struct{}

// routerStatus is a router as /kvsteer/status shows it. There is more than one while the
// last requests of an old configuration are served.
type routerStatus struct {
	Fleet         string `json:"fleet,omitempty"`
	Policy        string `json:"policy,omitempty"`
	PolicyVersion string `json:"policy_version,omitempty"`
	// State is "opening", "" while it serves, and "ending" when it has been replaced and
	// only answers that were on their way are left.
	State    roomState      `json:"state,omitempty"`
	InFlight int            `json:"in_flight"`
	Waiting  int            `json:"waiting"`
	Workers  []workerStatus `json:"workers"`
	// Replicas is how the exchange with other replicas does; there only with redis.
	Replicas *replicaStatus `json:"replicas,omitempty"`
	// Problem is why the fleet is not what its file says.
	Problem string `json:"problem,omitempty"`
}

type replicaStatus struct {
	Up bool `json:"up"`
	// Peers are the names of the replicas that were heard of lately.
	Peers []string `json:"peers"`
	// Problem is why it is not up.
	Problem string `json:"problem,omitempty"`
}

type workerStatus struct {
	Name     string   `json:"name"`
	URL      string   `json:"url"`
	Routable bool     `json:"routable"`
	Models   []string `json:"models"`
	// InFlight counts requests of all routers over this fleet.
	InFlight int `json:"in_flight"`
	// Elsewhere counts those of other replicas.
	Elsewhere int `json:"elsewhere,omitempty"`
	// Problem is why it is not routable.
	Problem string `json:"problem,omitempty"`
}

// CaddyModule implements caddy.Module.
func (admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.kvsteer", New: func() caddy.Module { return admin{} }}
}

// Routes implements caddy.AdminRouter.
func (admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/kvsteer/status", Handler: caddy.AdminHandlerFunc(serveStatus)},
		{Pattern: "/kvsteer/snapshot", Handler: caddy.AdminHandlerFunc(serveSnapshot)},
	}
}

func serveStatus(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("ask with GET")}
	}
	all := []routerStatus{}
	for _, at := range standing.list() {
		all = append(all, at.status())
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(map[string]any{"routers": all})
}

func (at roomAt) status() routerStatus {
	r := at.room
	s := routerStatus{Fleet: r.config.Fleet, Policy: r.config.Policy, State: at.state, Workers: []workerStatus{}}
	if at.state == opening {
		return s // its router may not be there yet
	}
	f := r.fleet.fleet
	s.InFlight, s.Waiting = r.router.InFlight(), r.router.Waiting()
	if r.rules != nil {
		s.PolicyVersion = r.rules.Status().Version
	}
	if err := f.Err(); err != nil {
		s.Problem = err.Error()
	}
	if st := r.router.Stats().Replicas; st != nil {
		s.Replicas = &replicaStatus{Up: st.Up, Peers: []string{}, Problem: st.Problem}
		for i := range st.Peers {
			s.Replicas.Peers = append(s.Replicas.Peers, st.Peers[i].Name)
		}
	}
	for _, m := range f.Snapshot().Members() {
		w := workerStatus{Name: m.Name(), URL: m.URL().Redacted(), Routable: m.Routable(), Models: []string{}}
		for _, model := range m.Models() {
			w.Models = append(w.Models, model.Name)
		}
		for rank := range m.Ranks() {
			w.InFlight += m.InFlight(rank).Requests
			w.Elsewhere += m.Peers(rank).Requests
		}
		if err := m.Health().Err; err != nil {
			w.Problem = err.Error()
		}
		s.Workers = append(s.Workers, w)
	}
	return s
}

var _ caddy.AdminRouter = admin{}
