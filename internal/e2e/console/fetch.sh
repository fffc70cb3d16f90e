#!/bin/sh
# Sees to what the console's browser test needs: Chromium (apt-get, where it may be used)
# and axe-core (npm, at a pinned version, checked against the hash below), which goes to
# the user's cache. Prints the path of axe.min.js.
set -eu
version=4.14.1
want=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
case $(uname -s) in
Darwin) cache=$HOME/Library/Caches ;;
*) cache=${XDG_CACHE_HOME:-$HOME/.cache} ;;
esac
dest=$cache/kvsteer/axe-core-$version

browser() {
	for name in chromium chromium-browser google-chrome google-chrome-stable; do
		command -v "$name" >/dev/null 2>&1 && return 0
	done
	return 1
}
if ! browser; then
	command -v apt-get >/dev/null 2>&1 || {
		echo 'fetch.sh: the test needs Chromium or Chrome in PATH; install it and run this again' >&2
		exit 1
	}
	as_root=
	[ "$(id -u)" -eq 0 ] || as_root="sudo -n"
	options='-o Acquire::Retries=3 -o DPkg::Lock::Timeout=300'
	# shellcheck disable=SC2086 # lists of words
	$as_root env DEBIAN_FRONTEND=noninteractive sh -c "apt-get -qq $options update && apt-get -qq $options install -y --no-install-recommends chromium fonts-dejavu-core" >&2 </dev/null
fi

if [ ! -s "$dest/axe.min.js" ]; then
	command -v npm >/dev/null 2>&1 || {
		echo 'fetch.sh: npm is needed to fetch axe-core' >&2
		exit 1
	}
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	trap 'exit 1' HUP INT TERM
	retry() { # a registry may time out
		"$@" || { sleep 3 && "$@"; } || { sleep 20 && "$@"; }
	}
	(cd "$tmp" && retry npm pack --silent "axe-core@$version" >/dev/null)
	got=$( (sha256sum "$tmp/axe-core-$version.tgz" 2>/dev/null || shasum -a 256 "$tmp/axe-core-$version.tgz") | cut -d ' ' -f 1)
	[ "$got" = "$want" ] || {
		echo "fetch.sh: axe-core has sha256 $got, not $want: refused" >&2
		exit 1
	}
	tar -xzf "$tmp/axe-core-$version.tgz" -C "$tmp" package/axe.min.js
	mkdir -p "$dest"
	mv "$tmp/package/axe.min.js" "$dest/axe.min.js"
fi
echo "$dest/axe.min.js"
