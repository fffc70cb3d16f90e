// Package discoverer shows how to write a fleet.Discoverer: for a registry with the
// API of Consul, whose queries block until something changes. Its test is the suite.
package discoverer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/kvsteer/kvsteer/fleet"
)

// Consul follows the healthy instances of a service.
type Consul struct {
	URL    string       // "http://127.0.0.1:8500/v1/health/service/vllm?passing=1&wait=30s"
	Client *http.Client // with a Timeout longer than that wait and a Transport of its own, whose idle connections are closed at the end
}

// Discover sets the complete list after every change. What fails is returned: the Fleet reports it and calls again.
func (c *Consul) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	if c.Client == nil || c.Client.Transport == nil {
		return errors.New("consul: no Client with a Transport; give both")
	}
	defer c.Client.CloseIdleConnections()
	for index := uint64(0); ; {
		workers, next, err := c.query(ctx, index)
		if err == nil && next != index { // the same: the wait was over
			err = set(workers)
		}
		if index = next; err != nil {
			return err
		}
	}
}

func (c *Consul) query(ctx context.Context, index uint64) (all []fleet.Worker, next uint64, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"&index="+strconv.FormatUint(index, 10), http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	resp, err := c.Client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	var list []struct {
		Node    struct{ Node, Address string }
		Service struct {
			ID, Address string
			Port        json.Number
			Meta        map[string]string
		}
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 10<<20)).Decode(&list) //nolint:musttag // these are the names in its JSON
	// With an index of 0 no query would block.
	if next, _ = strconv.ParseUint(resp.Header.Get("X-Consul-Index"), 10, 64); list == nil || next == 0 || resp.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New("consul: status "+resp.Status+", not both a list of instances and an index"))
	}
	for _, e := range list {
		// An ID is unique on its node alone; a service without an address has that of its node.
		at := "http://" + net.JoinHostPort(cmp.Or(e.Service.Address, e.Node.Address), e.Service.Port.String())
		// Without an epoch the Fleet finds out about restarts by itself.
		all = append(all, fleet.Worker{Name: e.Node.Node + "/" + e.Service.ID, URL: at, Epoch: e.Service.Meta["epoch"], Labels: e.Service.Meta})
	}
	return all, next, err
}
