// Package discoverer shows how to write a fleet.Discoverer: for a registry with the
// API of Consul, whose queries block until something changes. Its test is the suite.
package discoverer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/kvsteer/kvsteer/fleet"
)

// Consul follows the healthy instances of a service.
type Consul struct {
	URL    string       // "http://127.0.0.1:8500/v1/health/service/vllm?passing=1&wait=30s"
	Client *http.Client // with a Timeout longer than that wait; idle connections are closed at the end
}

// Discover sets the complete list after every change. What fails is returned: the Fleet reports it and calls again.
func (c *Consul) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	defer c.Client.CloseIdleConnections()
	for index := "0"; ; {
		workers, next, err := c.query(ctx, index)
		if err == nil && next != index { // the same: the wait was over
			err = set(workers)
		}
		if index = next; err != nil {
			return err
		}
	}
}

func (c *Consul) query(ctx context.Context, index string) (workers []fleet.Worker, next string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"&index="+index, http.NoBody)
	if err != nil {
		return nil, "", err
	}
	resp, err := c.Client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	var list []struct {
		Service struct {
			ID, Address string
			Port        json.Number
			Meta        map[string]string
		}
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 10<<20)).Decode(&list) //nolint:musttag // these are the names in its JSON
	if next = resp.Header.Get("X-Consul-Index"); list == nil || next == "" || resp.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New("consul: status "+resp.Status+" and no list of instances"))
	}
	for _, e := range list {
		w := fleet.Worker{Name: e.Service.ID, Epoch: e.Service.Meta["epoch"], Labels: e.Service.Meta}
		w.URL = "http://" + net.JoinHostPort(e.Service.Address, e.Service.Port.String())
		workers = append(workers, w) // without an epoch the Fleet finds out about restarts by itself
	}
	return workers, next, err
}
