#!/usr/bin/env bash
# Prints the folder of a prometheus and a promtool: those of PATH, else Debian's package,
# fetched and unpacked into the cache, so that nothing is installed and no service starts.
#   PROMETHEUS_DIR=/path/to/folder   use that one instead
set -euo pipefail

if [ -n "${PROMETHEUS_DIR:-}" ]; then
	echo "$PROMETHEUS_DIR"
	exit 0
fi
if command -v prometheus >/dev/null && tool=$(command -v promtool); then
	dirname "$tool"
	exit 0
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvsteer/prometheus
bin=$cache/usr/bin
if [ ! -x "$bin/promtool" ]; then
	command -v apt-get >/dev/null || {
		echo 'prometheus.sh: there is no apt-get; put prometheus and promtool into PATH, or set PROMETHEUS_DIR' >&2
		exit 1
	}
	mkdir -p "$cache"
	exec 9>"$cache.lock"
	if command -v flock >/dev/null; then flock 9; fi
	if [ ! -x "$bin/promtool" ]; then
		echo 'prometheus.sh: fetching prometheus' >&2
		fetch() { (cd "$cache" && rm -f prometheus_*.deb && apt-get -qq -o Acquire::Retries=3 download prometheus >&2); }
		fetch || { apt-get -qq -o DPkg::Lock::Timeout=300 update >&2 && fetch; }
		dpkg -x "$cache"/prometheus_*.deb "$cache"
		rm -f "$cache"/prometheus_*.deb
		"$bin/promtool" --version >&2
	fi
fi
echo "$bin"
