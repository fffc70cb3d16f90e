//go:build unix

package redis

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/canary"
	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// Passwords of Redis, and what strangers write to the channel, come out in no log and in no
// error: while all is well, with a wrong password, where nobody listens, and when Redis dies.
func TestCanary(t *testing.T) {
	c := canary.New(t)
	s := newServer(t)
	password, wrong := c.In("password"), c.In("wrong")
	open := s.client(t)
	require.NoError(t, open.ConfigSet(t.Context(), "requirepass", password).Err())
	require.NoError(t, open.Close())
	client := func(socket, user, password string) *goredis.Client {
		o := s.client(t)
		defer o.Close()
		own := *o.Options()
		own.Addr, own.Username, own.Password = socket, user, password
		client := goredis.NewClient(&own)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	right := client(s.socket, "", password)

	for name, of := range map[string]*goredis.Client{
		"right": right, "wrong password": client(s.socket, "", wrong), "no password": client(s.socket, "", ""),
		"wrong user": client(s.socket, c.In("user"), wrong), "nobody": client(filepath.Join(s.dir, "none"), c.In("user"), password),
	} {
		for _, failure := range []Failure{Deny, LocalShare, Allow} {
			l := s.limiter(t, Options{Client: of, Rules: hourly(1), Failure: failure, Share: 1, Prefix: name + failure.String(), Logger: c.Logger()})
			for range 5 { // enough for Redis to be down, and for a refusal
				h, err := l.Admit(t.Context(), &quota.Demand{Tenant: "t"})
				c.Error(name, err)
				if err == nil {
					h.Settle(quota.Used{Output: 1})
				}
			}
			c.Error(name, l.Stats().Down)
		}
		x, err := NewExchange(of, ExchangeOptions{Logger: c.Logger(), Deadline: longEnough})
		require.NoError(t, err)
		m := replica.Message{Version: replica.Version, Router: "r", Epoch: 1, Seq: 1, Full: true}
		err = x.Publish(t.Context(), &m)
		require.Equal(t, name == "right", err == nil, name)
		c.Error(name, err)
		m.Loads = make([]replica.Load, replica.MaxLoads+1)
		c.Error(name, x.Publish(t.Context(), &m))
		if name != "right" {
			c.Error(name, x.Receive(t.Context(), func() {}, func(*replica.Message) {}))
		}
	}

	x, err := NewExchange(right, ExchangeOptions{Logger: c.Logger()})
	require.NoError(t, err)
	subscribed, over := make(chan struct{}), make(chan error, 1)
	go func() {
		over <- x.Receive(context.Background(), func() { close(subscribed) }, func(*replica.Message) {})
	}()
	<-subscribed
	foreign := []string{c.In("foreign"), strings.Repeat(c.In("long"), 1<<18), "\x08\x01" + c.In("torn"), "\x08\x02\x12\x20" + c.In("router")}
	for _, text := range foreign {
		require.NoError(t, right.Publish(t.Context(), defaultChannel, text).Err())
	}
	require.Eventually(t, func() bool {
		n := x.Stats()
		return n.Malformed+n.OtherVersion == uint64(len(foreign))
	}, longEnough, time.Millisecond)
	s.kill()
	c.Error("it died", <-over)
	require.Positive(t, c.Lines(), "something was logged")
}
