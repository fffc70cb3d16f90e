package kubernetes_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// cluster holds workers as pods.
type cluster struct{ *apiServer }

func (c cluster) set(workers []fleet.Worker) error {
	pods := make([]*corev1.Pod, len(workers))
	names := map[string]bool{}
	for i := range workers {
		if workers[i].Name == "" || names[workers[i].Name] || strings.Contains(workers[i].Name, "\x01") {
			return fmt.Errorf("pods have a name each: %w", errors.ErrUnsupported)
		}
		names[workers[i].Name] = true
		pods[i] = podOf(&workers[i])
	}
	c.mu.Lock()
	var gone []string
	for key, u := range c.objects {
		if strings.HasPrefix(key, "pods/") && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Name == u.GetName() }) {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		c.removeLocked(key)
	}
	c.mu.Unlock()
	for _, p := range pods {
		c.put("pods", p)
	}
	return nil
}

func podOf(w *fleet.Worker) *corev1.Pod {
	u, err := url.Parse(w.URL)
	if err != nil {
		u = &url.URL{}
	}
	p := newPod(w.Name, w.Epoch, u.Hostname())
	for k, v := range w.Labels {
		p.Labels["own-"+k] = v
	}
	say := func(key, value string) {
		if value != "" && value != "0" && value != "false" {
			p.Annotations["kvsteer.dev/"+key] = value
		}
	}
	say("port", u.Port())
	if u.Port() == "0" {
		p.Annotations["kvsteer.dev/port"] = "0"
	}
	say("scheme", u.Scheme)
	say("engine", string(w.Engine))
	say("models", strings.Join(w.Models, ","))
	say("class", w.Class)
	say("pool", w.Pool)
	say("block-size", strconv.Itoa(w.BlockSize))
	say("data-parallel", strconv.Itoa(w.DataParallel))
	if len(w.Events) > 0 {
		say("events-port", portIn(w.Events[0].Events))
		say("replay-port", portIn(w.Events[0].Replay))
		say("events-topic", w.Events[0].Topic)
	}
	say("speculative", strconv.FormatBool(w.Speculative))
	say("role", string(w.Role))
	say("draining", strconv.FormatBool(w.Draining))
	return p
}

func portIn(addr string) string {
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(addr, "tcp://"))
	return port
}

// wantOfCluster is what the workers become on the way: named after their namespace,
// with pods' labels, and events at the pod's own address, one port a rank.
func wantOfCluster(workers []fleet.Worker) []fleet.Worker {
	for i := range workers {
		w := &workers[i]
		w.Name = ns + "/" + w.Name
		w.Epoch += ".0"
		labels := map[string]string{"app": "vllm"}
		for k, v := range w.Labels {
			labels["own-"+k] = v
		}
		w.Labels = labels
		u, err := url.Parse(w.URL)
		if err != nil || len(w.Events) == 0 {
			continue
		}
		first := w.Events[0]
		w.Events = nil
		for rank := range max(1, w.DataParallel) {
			at := func(addr string) string {
				port, _ := strconv.Atoi(portIn(addr))
				return "tcp://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(port+rank))
			}
			w.Events = append(w.Events, follow.Endpoint{
				Events: at(first.Events), Replay: at(first.Replay), Topic: first.Topic, Rank: rank,
			})
		}
	}
	return workers
}
