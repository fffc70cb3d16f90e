#!/bin/sh
# Makes sure that what the tests need besides Go is there: a C compiler (the race
# detector and the cgo modules), libzmq with its pkg-config file (kvcache/zmq), dnsmasq,
# a Redis server (tenancy/redis), a PostgreSQL server (tenancy/ledger/sqlledger).
# Installs what is missing where apt-get may be used; says what to install elsewhere.
set -eu
cd "$(dirname "$0")/.."

missing=
cc=$(go env CC)
command -v "${cc%% *}" >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
command -v pkg-config >/dev/null 2>&1 || missing="$missing pkg-config"
pkg-config --exists libzmq 2>/dev/null || missing="$missing libzmq3-dev"
# A real Redis for tenancy/redis, whose tests start it themselves and fail without it.
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
# A real PostgreSQL, likewise. Debian keeps its programs out of PATH.
command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
# A real name server for fleet/dns; where it is none of Debian's, that test is skipped.
if command -v apt-get >/dev/null 2>&1; then
	command -v dnsmasq >/dev/null 2>&1 || [ -x /usr/sbin/dnsmasq ] || missing="$missing dnsmasq-base"
fi

# The library of kvcache/hftok is built from source, which takes cargo and some
# minutes; without it that module alone is tested without cgo.
hftok() {
	scripts/hftok-lib.sh have >/dev/null && exit 0
	command -v cargo >/dev/null 2>&1 && scripts/hftok-lib.sh >/dev/null && exit 0
	echo 'kvcache/hftok will be tested without its library, for want of cargo or of its registry: make hftok-lib says more'
	exit 0
}
[ -n "$missing" ] || hftok

by_hand() {
	cat >&2 <<EOF
The tests need more than Go: a C compiler, pkg-config, libzmq, redis-server and PostgreSQL ($1).
  Debian, Ubuntu:  apt-get install gcc libc6-dev pkg-config libzmq3-dev dnsmasq-base redis-server postgresql
  Fedora:          dnf install gcc pkgconf-pkg-config zeromq-devel redis postgresql-server
  macOS:           xcode-select --install; brew install pkg-config zeromq redis postgresql
Without them 'make test-root' still tests the library itself, which is pure Go.
EOF
	exit 1
}

command -v apt-get >/dev/null 2>&1 || by_hand "there is no apt-get here to install them with"
as_root=
if [ "$(id -u)" -ne 0 ]; then
	sudo -n true 2>/dev/null || by_hand "you are not root and can't use sudo without a password"
	as_root=sudo
fi
echo "installing$missing"
options='-o Acquire::Retries=3 -o DPkg::Lock::Timeout=300' # a mirror may fail once, another apt-get may be at work
# shellcheck disable=SC2086 # both are lists of words
$as_root env DEBIAN_FRONTEND=noninteractive sh -c "apt-get -qq $options update && apt-get -qq $options install -y --no-install-recommends $missing" </dev/null ||
	by_hand "apt-get failed"
hftok
