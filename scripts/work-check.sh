#!/bin/sh
# Checks that go.work names every module that it can, and asks for no newer Go than the root
# module does: a clone must build with the Go that its go.mod promises.
set -eu
cd "$(dirname "$0")/.."
go_of() { sed -n 's/^go //p' "$1"; }
if [ "$(go_of go.work)" != "$(go_of go.mod)" ]; then
	echo "go.work says go $(go_of go.work), go.mod says go $(go_of go.mod)" >&2
	exit 1
fi
used=$(sed -n 's|^[[:space:]]*\(use[[:space:]]\{1,\}\)\{0,1\}\(\./\{0,1\}\)|\2|p' go.work | sed 's|^\./||' | LC_ALL=C sort)
want=$(scripts/modules.sh work)
if [ "$used" != "$want" ]; then
	printf 'go.work uses:\n%s\nbut the modules are:\n%s\nRun: make work\n' "$used" "$want" >&2
	exit 1
fi
