#!/bin/sh
# Prints the folder of every module of the repository, one a line, "." first.
# internal/tools is left out: it pins programs, it is neither built nor released.
set -eu
cd "$(dirname "$0")/.."
find . \( -name '.?*' -o -name testdata -o -name node_modules \) -prune -o -name go.mod -print |
	sed -e 's|/go\.mod$||' -e 's|^\./||' | grep -v '^internal/tools$' | LC_ALL=C sort
