#!/bin/sh
# Prints, for eval, what has to be in the environment to build the module in folder
# $1. That is nothing but for kvcache/hftok, which needs its native library: where
# nobody has built that (make hftok-lib), the module is built without cgo.
set -eu
[ "$1" = kvcache/hftok ] || exit 0
if flags=$("$(dirname "$0")/hftok-lib.sh" have); then
	printf "export CGO_LDFLAGS='%s'\n" "$flags${CGO_LDFLAGS:+ $CGO_LDFLAGS}"
else
	echo 'export CGO_ENABLED=0'
fi
