//go:build unix

package redis

import (
	"context"
	"flag"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

var severalNodes = flag.Bool("redis.cluster", false, "test with a Redis Cluster of six nodes, too")

// cluster is a Redis Cluster of three masters, each with a replica.
type cluster struct {
	nodes     []*server
	addresses []string
}

const (
	clusterMasters  = 3
	nodesTimeout    = 2 * time.Second // of silence, until others take a node for dead
	clusterPatience = 4 * longEnough
)

func newCluster(t *testing.T) *cluster {
	t.Helper()
	cli, err := exec.LookPath(strings.Replace(*program, "-server", "-cli", 1))
	require.NoError(t, err)
	c := &cluster{}
	for range 2 * clusterMasters {
		c.add(t)
	}
	args := append([]string{"--cluster", "create"}, c.addresses...)
	out, err := exec.Command(cli, append(args, "--cluster-replicas", "1", "--cluster-yes")...).CombinedOutput()
	require.NoError(t, err, string(out))
	admin := c.nodes[0].client(t)
	defer admin.Close()
	require.Eventually(t, func() bool {
		nodes := admin.ClusterNodes(t.Context()).Val()
		return strings.Count(nodes, "slave") == clusterMasters && strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, clusterPatience, 20*time.Millisecond)
	return c
}

// add starts a node that knows nobody.
func (c *cluster) add(t *testing.T) {
	t.Helper()
	for range 20 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		b, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port, bus := a.Addr().(*net.TCPAddr).Port, b.Addr().(*net.TCPAddr).Port
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		s := prepareServer(t, "--cluster-enabled", "yes", "--port", strconv.Itoa(port), "--cluster-port", strconv.Itoa(bus), "--bind", "127.0.0.1",
			"--cluster-node-timeout", strconv.FormatInt(nodesTimeout.Milliseconds(), 10), "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
		if s.tryStart() {
			c.nodes, c.addresses = append(c.nodes, s), append(c.addresses, a.Addr().String())
			return
		}
	}
	require.Fail(t, "no free ports for a node")
}

func (c *cluster) client(t *testing.T) *goredis.ClusterClient {
	t.Helper()
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: c.addresses, ContextTimeoutEnabled: true,
		DialTimeout: longEnough, ReadTimeout: longEnough, WriteTimeout: longEnough, PoolTimeout: longEnough,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// master is the node that has a key's slot.
func (c *cluster) master(t *testing.T, key string) *server {
	t.Helper()
	client := c.client(t)
	m, err := client.MasterForKey(t.Context(), key)
	require.NoError(t, err)
	for i, a := range c.addresses {
		if a == m.Options().Addr {
			return c.nodes[i]
		}
	}
	require.Fail(t, "nobody has the slot")
	return nil
}

// The master that has the keys dies, and its replica takes over: what was taken is still
// taken, and routers hear each other again. It is run by hand: a machine that pauses makes
// a cluster fail over by itself, and may then lose what this counts.
func TestClusterFailsOver(t *testing.T) {
	if !*severalNodes {
		t.Skip("go test . -args -redis.cluster: it starts six servers and waits for one to be taken for dead")
	}
	c := newCluster(t)
	ctx := context.Background()
	client := c.client(t)
	o := hourly(10)
	o.Rules[0].Concurrency = 5
	l := c.nodes[0].limiter(t, Options{Client: client, Deadline: time.Second, Rules: o})
	for range 4 {
		h, err := l.Admit(ctx, &quota.Demand{})
		require.NoError(t, err)
		require.Empty(t, h.Degraded())
		require.True(t, h.Settle(quota.Used{}))
	}
	l.settled(t)

	var pairs [][2]*Exchange
	for _, sharded := range []bool{false, true} {
		x := ExchangeOptions{Sharded: sharded, Deadline: time.Second, Silence: 2 * time.Second}
		a, err := NewExchange(c.client(t), x)
		require.NoError(t, err)
		b, err := NewExchange(c.client(t), x)
		require.NoError(t, err)
		hears(t, a, b)
		pairs = append(pairs, [2]*Exchange{a, b})
	}

	master := c.master(t, "{kvsteer}")
	admin := master.client(t)
	require.NoError(t, admin.Do(ctx, "WAIT", 1, longEnough.Milliseconds()).Err())
	require.NoError(t, admin.Close())
	master.kill()
	_, err := l.Admit(ctx, &quota.Demand{})
	var unavailable *UnavailableError
	require.ErrorAs(t, err, &unavailable)

	var h quota.Hold
	require.Eventually(t, func() bool {
		var err error
		h, err = l.Admit(ctx, &quota.Demand{})
		return err == nil
	}, clusterPatience, 100*time.Millisecond)
	require.Empty(t, h.Degraded())
	st, ok := h.Standing(quota.Requests)
	require.True(t, ok)
	require.EqualValues(t, 5, st.Left)
	require.True(t, h.Refund())
	for _, p := range pairs {
		hears(t, p[0], p[1])
	}
}

// hears is through when b has heard of a, as routers do: each message anew, and
// subscribed anew whenever that has ended.
func hears(t *testing.T, a, b *Exchange) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	heard, over := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			_ = b.Receive(ctx, func() {}, func(*replica.Message) {
				select {
				case heard <- struct{}{}:
				default:
				}
			})
		}
	}()
	seq := uint64(0)
	require.Eventually(t, func() bool {
		seq++
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = a.Publish(ctx, &replica.Message{Version: replica.Version, Epoch: 1, Seq: seq})
		return len(heard) > 0
	}, clusterPatience, 100*time.Millisecond)
	cancel()
	<-over
}
