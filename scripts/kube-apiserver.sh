#!/bin/sh
# Builds etcd, kube-apiserver and kubectl, at the versions that
# fleet/kubernetes/testdata/server pins, from their modules into the cache, and
# prints the folder they are in. The first build takes about a quarter of an hour on two
# cores and 2 GB of Go's build cache; later calls find the programs there.
set -eu
cd "$(dirname "$0")/../fleet/kubernetes/testdata/server"
export GOWORK=off CGO_ENABLED=0
GO=${GO:-go}
# What decides about the programs decides about the folder's name.
state=$( (cat go.mod go.sum; "$GO" version) | cksum | cut -d' ' -f1)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/kvsteer/kubernetes/$state
if [ ! -e "$dir/complete" ]; then
	mkdir -p "$dir"
	version=$("$GO" list -mod=readonly -m -f '{{.Version}}' k8s.io/kubernetes)
	minor=${version#v1.}
	minor=${minor%%.*}
	# The versions that the programs tell others are set when they are linked.
	v="k8s.io/component-base/version"
	nice -n 10 "$GO" build -mod=readonly -trimpath \
		-ldflags "-s -w -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=$minor" \
		-o "$dir/" \
		k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kubectl go.etcd.io/etcd/server/v3 >&2
	# Called after its module's last element.
	if [ -e "$dir/v3" ]; then mv "$dir/v3" "$dir/etcd"; fi
	if [ -e "$dir/server" ]; then mv "$dir/server" "$dir/etcd"; fi
	touch "$dir/complete"
fi
printf '%s\n' "$dir"
