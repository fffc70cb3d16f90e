#!/bin/sh
# Prints, for eval, what has to be in the environment to build the module in folder
# $1: nothing, but for the two that wrap C libraries. kvcache/hftok needs its native
# library: where nobody has built that (make hftok-lib), it is built without cgo.
set -eu
case $1 in
kvcache/zmq) echo 'export CGO_ENABLED=1' ;;
kvcache/hftok)
	if flags=$("$(dirname "$0")/hftok-lib.sh" have); then
		printf "export CGO_ENABLED=1 CGO_LDFLAGS='%s'\n" "$flags${CGO_LDFLAGS:+ $CGO_LDFLAGS}"
	else
		echo 'export CGO_ENABLED=0'
	fi
	;;
esac
