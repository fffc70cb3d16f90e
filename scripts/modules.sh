#!/bin/sh
# Prints the folder of every module of the repository, one a line, "." first.
# internal/tools is left out: it pins programs, it is neither built nor released.
#
#   modules.sh work   only those that go.work names: it can't ask for a newer Go than
#                     the root module does, so modules that need one are built by
#                     themselves only, as their users do
set -eu
cd "$(dirname "$0")/.."
go_of() { sed -n 's/^go //p' "$1/go.mod"; }
find . \( -name '.?*' -o -name testdata -o -name node_modules \) -prune -o -name go.mod -print |
	sed -e 's|/go\.mod$||' -e 's|^\./||' | grep -v '^internal/tools$' | LC_ALL=C sort |
	while read -r m; do
		if [ "${1:-}" = work ]; then
			newest=$(printf '%s\n' "$(go_of .)" "$(go_of "$m")" | sort -V | tail -n 1)
			[ "$newest" = "$(go_of .)" ] || continue
		fi
		echo "$m"
	done
