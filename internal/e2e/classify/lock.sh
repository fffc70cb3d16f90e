#!/usr/bin/env bash
# Resolve requirements/presidio.in again into requirements/presidio.lock. Run it by hand
# when a version is raised; setup.sh installs from the lock only.
set -euo pipefail
own=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$own/../vllm/common.sh"
uv=$cache/boot/bin/uv
[ -x "$uv" ] || die "uv is missing; run setup.sh first"
cd "$own/requirements"
"$uv" pip compile -q --python-version 3.11 --python-platform x86_64-manylinux_2_34 --no-annotate --no-header \
	presidio.in -o presidio.lock
echo "presidio: $(grep -c == presidio.lock) packages"
