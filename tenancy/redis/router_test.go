//go:build unix

package redis

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

var routerOn = flag.String("redis.router", "", "the socket of a Redis: be a router process of TestProcesses")

// A limit of two processes: tokens that hardly refill while a test runs, and some requests
// at a time.
var shared = quota.Options{Rules: []quota.Rule{
	{Name: "tokens", Scope: quota.PerOrg, Tokens: quota.Rate{Amount: 200_000, Per: 31 * 24 * time.Hour}},
	{Name: "running", Scope: quota.PerTenant, Concurrency: 40},
}}

// TestRouterProcess is the router: it serves one request, and says so; told to, it serves
// as much as it may and says how much that was, or, told so, holds what it has until it is
// killed.
func TestRouterProcess(t *testing.T) {
	if *routerOn == "" {
		return // not a test by itself
	}
	socket, hold := strings.CutSuffix(*routerOn, ",hold")
	c := goredis.NewClient(&goredis.Options{
		Network: "unix", Addr: socket, ContextTimeoutEnabled: true,
		DialTimeout: longEnough, ReadTimeout: longEnough, WriteTimeout: longEnough, PoolTimeout: longEnough,
	})
	defer c.Close()
	// Nothing expires on a machine that is slow.
	l, err := New(Options{Client: c, Rules: shared, Deadline: longEnough, Lease: routerLease})
	require.NoError(t, err)
	var used, served, refused atomic.Int64
	if !hold {
		h, err := l.Admit(context.Background(), &quota.Demand{Org: "o", Tenant: "t", Input: 100})
		require.NoError(t, err)
		require.True(t, h.Settle(quota.Used{Uncached: 100}))
		used.Add(100)
		served.Add(1)
		fmt.Println("ready")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(g)))
			for refused.Load() < 300 {
				h, err := l.Admit(context.Background(), &quota.Demand{Org: "o", Tenant: "t", Input: 100, Output: 50})
				if err != nil {
					var no *quota.Error
					if !errors.As(err, &no) {
						t.Error(err)
						return
					}
					if hold || no.Meter == quota.Tokens { // else ends are on their way
						refused.Add(1)
					}
					continue
				}
				if hold {
					continue
				}
				out := rng.Int64N(100)
				used.Add(100 + out)
				served.Add(1)
				h.Settle(quota.Used{Uncached: 100, Output: out})
			}
		})
	}
	wg.Wait()
	fmt.Println("router", used.Load(), served.Load(), l.Stats().Without, l.Stats().Expired)
	if hold {
		select {} // until it is killed
	}
	ctx, cancel := context.WithTimeout(context.Background(), longEnough)
	defer cancel()
	require.NoError(t, l.Close(ctx))
}

// routerLease is that of a router process.
const routerLease = time.Minute

// routerProcess is one that runs.
type routerProcess struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func (s *server) router(t *testing.T, suffix string) *routerProcess {
	t.Helper()
	//nolint:gosec // the program is this test itself
	cmd := exec.Command(os.Args[0], "-test.run=^TestRouterProcess$", "-redis.router="+s.socket+suffix)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &routerProcess{cmd: cmd, in: in, out: bufio.NewScanner(out)}
}

// ready waits until it has served one.
func (p *routerProcess) ready(t *testing.T) {
	t.Helper()
	for p.out.Scan() {
		if p.out.Text() == "ready" {
			return
		}
	}
	t.Fatal("the router is never ready")
}

func (p *routerProcess) goOn(t *testing.T) {
	t.Helper()
	_, err := fmt.Fprintln(p.in)
	require.NoError(t, err)
}

func (p *routerProcess) said(t *testing.T) []int64 {
	t.Helper()
	for p.out.Scan() {
		if text, ok := strings.CutPrefix(p.out.Text(), "router "); ok {
			var n []int64
			for f := range strings.FieldsSeq(text) {
				v, err := strconv.ParseInt(f, 10, 64)
				require.NoError(t, err)
				n = append(n, v)
			}
			return n
		}
	}
	t.Fatal("the router has said nothing")
	return nil
}

// Two router processes on one Redis use a limit up, and not more of it than there is but
// for what the last requests, at most as many as run at a time, used beyond their estimates.
func TestProcesses(t *testing.T) {
	s := newServer(t)
	a, b := s.router(t, ""), s.router(t, "")
	a.ready(t)
	b.ready(t) // else the other one may have used all by then
	a.goOn(t)
	b.goOn(t)
	x, y := a.said(t), b.said(t)
	t.Logf("used, served, without Redis, expired: %v %v", x, y)
	require.Zero(t, x[2]+y[2]+x[3]+y[3])
	require.Positive(t, x[1])
	require.Positive(t, y[1])
	const limit, beyond, atOnce = 200_000, 49, 40 // as many as may run until Redis is told of their ends
	require.LessOrEqual(t, x[0]+y[0], int64(limit+beyond*atOnce))
	require.Greater(t, x[0]+y[0], int64(limit-150-51*atOnce))
}

// withClock is a limiter to which it is later than it is, once told so: leases that are
// long enough for a busy machine end at once then.
func (s *server) withClock(t *testing.T, o Options) (l *Limiter, later func(time.Duration)) {
	t.Helper()
	var off atomic.Int64
	o.now = func() int64 { return time.Now().UnixMicro() + off.Load() }
	return s.limiter(t, o), func(d time.Duration) { off.Add(d.Microseconds()) }
}

// A router that is killed with 40 requests under way has them no more when its lease has
// ended, and their estimates stay used.
func TestRouterDies(t *testing.T) {
	s := newServer(t)
	p := s.router(t, ",hold")
	p.said(t)
	l, later := s.withClock(t, Options{Rules: shared})
	d := &quota.Demand{Org: "o", Tenant: "t", Input: 1}
	_, err := l.Admit(context.Background(), d)
	require.Equal(t, quota.Concurrency, refusal(t, err).Meter)
	require.NoError(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	later(routerLease)
	h, err := l.Admit(context.Background(), d)
	require.NoError(t, err)
	st, _ := h.Standing(quota.Tokens)
	require.InDelta(t, 200_000-40*150-1, st.Left, 140, "less than one request's")
	require.True(t, h.Refund())
}

// What a dead router had reserved of a budget is spent, in Redis's books.
func TestDeadReservesAreSpent(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	defer c.Close()
	o := Options{Lease: routerLease, Rules: quota.Options{Rules: []quota.Rule{
		{Name: "money", Budget: quota.Budget{Money: 100, Period: quota.Year, SoftAt: 50}},
	}}}
	dead := s.limiter(t, o)
	l, later := s.withClock(t, o)
	ctx := context.Background()
	_, err := dead.Admit(ctx, &quota.Demand{Cost: 60})
	require.NoError(t, err)
	dead.stop() // nobody renews
	<-dead.done
	h, err := l.Admit(ctx, &quota.Demand{Cost: 1})
	require.NoError(t, err)
	require.Len(t, h.Soft(), 1)
	require.EqualValues(t, 61, h.Soft()[0].Money)
	require.True(t, h.Refund())
	l.settled(t)
	require.EqualValues(t, 2, c.ZCard(ctx, "{kvsteer}live").Val())
	later(routerLease)
	require.True(t, l.renewOne(ctx, l.session.Load()))
	require.Zero(t, c.ZCard(ctx, "{kvsteer}live").Val(), "its own is as old")
	_, err = l.Admit(ctx, &quota.Demand{Cost: 41})
	no := refusal(t, err)
	require.EqualValues(t, 60, no.Spent)
	require.Equal(t, quota.Money, no.Meter)
	require.True(t, no.Reset.After(time.Now().Add(-time.Minute)), no.Reset)
}

// Whatever random requests of many at once come to, in the end nothing is under way, and
// a limit of which all was given back is full.
func TestNothingStays(t *testing.T) {
	s := newServer(t)
	o := Options{Rules: quota.Options{Rules: []quota.Rule{
		{Name: "org", Scope: quota.PerOrg, Tokens: quota.Rate{Amount: 100_000, Per: 31 * 24 * time.Hour}, Concurrency: 20},
		{Name: "money", Level: "money", Scope: quota.PerOrg, Budget: quota.Budget{Money: 1 << 40, Window: time.Hour}},
	}}}
	routers := []*Limiter{s.limiter(t, o), s.limiter(t, o), s.limiter(t, o)}
	var served, wrong atomic.Int64
	var wg sync.WaitGroup
	for g := range 12 {
		wg.Go(func() {
			l := routers[g%len(routers)]
			rng := rand.New(rand.NewPCG(5, uint64(g)))
			for range 150 {
				h, err := l.Admit(context.Background(), &quota.Demand{Org: "o", Input: rng.Int64N(5000), Cost: 10})
				if err != nil {
					var no *quota.Error
					if !errors.As(err, &no) {
						t.Errorf("not an Error: %v", err)
					}
					continue
				}
				served.Add(1)
				var once atomic.Int64
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() {
						if h.Refund() {
							once.Add(1)
						}
					})
				}
				both.Wait()
				if once.Load() != 1 {
					wrong.Add(1)
				}
			}
		})
	}
	wg.Wait()
	for _, l := range routers {
		l.settled(t)
	}
	require.Positive(t, served.Load())
	require.Zero(t, wrong.Load())
	h, err := routers[0].Admit(context.Background(), &quota.Demand{Org: "o", Input: 100_000})
	require.NoError(t, err)
	held, ok := h.(*hold)
	require.True(t, ok)
	require.Equal(t, 1, held.states[0].Running)
	require.Zero(t, held.states[1].Money)
	require.Empty(t, held.states[1].Steps)
	require.True(t, h.Refund())
}
