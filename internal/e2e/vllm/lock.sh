#!/usr/bin/env bash
# Resolve requirements/*.in again into requirements/*.lock. Run it by hand when
# a version is raised; setup.sh installs from the locks only.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
uv=$cache/boot/bin/uv
[ -x "$uv" ] || die "uv is missing; run setup.sh first"
for name in vllm guidellm; do
	"$uv" pip compile -q --python-version 3.11 --python-platform x86_64-manylinux_2_34 --no-annotate --no-header \
		--override "$here/requirements/$name.override" \
		"$here/requirements/$name.in" -o "$here/requirements/$name.lock"
	echo "$name: $(grep -c == "$here/requirements/$name.lock") packages"
done
