package kubernetes

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

const kindPod = "Pod"

// standing says whether a pod is in the list of workers, and whether as one that
// drains.
func standing(pod *corev1.Pod) (listed, draining bool) {
	switch {
	case pod.Status.Phase != corev1.PodRunning:
		return false, false
	case pod.DeletionTimestamp != nil:
		// Its readiness, true or not, is of no interest any more. What it was sent goes on.
		return true, true
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, false
		}
	}
	return false, false
}

// workers makes the workers of a pod: one for each port.
func (s *session) workers(pod *corev1.Pod, template *Template, ports []string) []found {
	listed, draining := standing(pod)
	if !listed {
		return nil
	}
	from := origin{kindPod, pod.Namespace, pod.Name}
	settings := podSettings{Template: *template, ports: ports}
	wrong, unknown := settings.annotate(pod.Annotations, pod.Labels)
	for _, u := range unknown {
		s.problems.add(from.problem(u.field, u.problem))
	}
	for _, w := range wrong {
		s.problems.add(from.problem(w.field, w.problem))
	}
	if len(wrong) > 0 {
		return nil
	}
	if field, problem := settings.problem(); problem != "" {
		s.problems.add(from.problem("worker."+field, problem))
		return nil
	}
	host := address(pod, s.opts.Family)
	if host == "" {
		if len(pod.Status.PodIPs) > 0 {
			s.problems.add(from.problem("status.podIPs", "there is no "+string(s.opts.Family)+" address; choose another Options.Family"))
		}
		return nil
	}
	if len(settings.ports) == 0 {
		s.problems.add(from.problem("", "it is not said which port the engine listens on; annotate it with "+Prefix+"port"))
		return nil
	}
	var out []found
	for place, port := range settings.ports {
		number, container, problem := portOf(pod, port)
		if problem != "" {
			s.problems.add(from.problem("port", problem))
			return nil
		}
		e := endpoint{
			name: pod.Namespace + "/" + pod.Name, epoch: epoch(pod, container), host: host, port: number, place: place, labels: pod.Labels,
		}
		if len(settings.ports) > 1 {
			e.name += ":" + strconv.Itoa(number)
		}
		w := settings.worker(&e)
		w.Draining = w.Draining || draining
		if s.opts.Adjust == nil || s.opts.Adjust(&w, pod) {
			out = append(out, found{Worker: w, from: from})
		}
	}
	return out
}

// address is one of the pod's own, "" if there is none. A pod in its host's network
// has that one's.
func address(pod *corev1.Pod, family Family) string {
	all := make([]string, 0, len(pod.Status.PodIPs)+1)
	for _, ip := range pod.Status.PodIPs {
		all = append(all, ip.IP)
	}
	if len(all) == 0 {
		all = append(all, pod.Status.PodIP)
	}
	for _, text := range all {
		if inFamily(text, family) {
			return text
		}
	}
	return ""
}

func inFamily(text string, family Family) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && (family == FamilyPrimary || (family == FamilyIPv4) == ip.Is4())
}

// portOf finds a port by its number or its name, and the container that has it, "" if
// that can't be told.
func portOf(pod *corev1.Pod, port string) (number int, container, problem string) {
	number, err := strconv.Atoi(port)
	byName := err != nil
	for _, c := range engines(pod) {
		for _, p := range c.Ports {
			if (byName && p.Name == port || !byName && int(p.ContainerPort) == number) && p.Protocol != corev1.ProtocolUDP {
				return int(p.ContainerPort), c.Name, ""
			}
		}
	}
	switch {
	case byName:
		return 0, "", fmt.Sprintf("no container has a port that is named %q; name one so, or give the port's number", port)
	case number < 1 || number > maxPort:
		return 0, "", fmt.Sprintf("%d is not between 1 and %d", number, maxPort)
	}
	return number, "", "" // ports need not be declared
}

// engines are the containers that may be an engine: all that go on running.
func engines(pod *corev1.Pod) []corev1.Container {
	all := slices.Clip(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all = append(all, c)
		}
	}
	return all
}

// epoch tells instances apart: another pod of the same name has another uid, and a
// container that was restarted has lost its cache. If it can't be told which one has
// the engine, a restart of any counts.
func epoch(pod *corev1.Pod, container string) string {
	restarts := int32(0)
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if container == "" || list[i].Name == container {
				restarts += list[i].RestartCount
			}
		}
	}
	return string(pod.UID) + "." + strconv.Itoa(int(restarts))
}
