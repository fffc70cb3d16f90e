#!/usr/bin/env bash
# Install vLLM (by ../vllm/setup.sh) and Presidio's analyzer into the cache directory, and
# write the classifier that vLLM is to serve. Safe to run again: when nothing changed it
# returns at once. On success it prints KEY=VALUE lines on standard output; everything
# else goes to standard error.
set -euo pipefail
own=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$own/../vllm/common.sh"

bash "$own/../vllm/setup.sh" # it prints KVSTEER_VLLM_PYTHON
presidio=$cache/presidio classifier=$cache/model-labels
exec 9>"$cache/setup-classify.lock"
flock 9 # two test binaries may ask for this at once

same() { [ -e "$1" ] && [ "$(cat "$1")" = "$2" ]; }

stamp=$(sha256sum <"$own/requirements/presidio.lock" | cut -c1-16)
if ! same "$presidio/stamp" "$stamp"; then
	echo "setup: installing presidio ($(grep -c == "$own/requirements/presidio.lock") packages)" >&2
	rm -rf "$presidio"
	uv=$cache/boot/bin/uv
	export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-180} UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1 UV_CACHE_DIR=$cache/uv-cache
	"$uv" venv -q --python "$(readlink -f "$vllm_python")" "$presidio"
	install() { "$uv" pip install -q --no-deps --compile-bytecode --python "$presidio/bin/python" -r "$own/requirements/presidio.lock" >&2; }
	install || { sleep 3 && install; } || { sleep 20 && install; } # a registry may time out
	echo "$stamp" >"$presidio/stamp"
fi

stamp=$(cat "$own/make_classifier.py" "$tokenizer_dir/version" | sha256sum | cut -c1-16)
if ! same "$classifier/stamp" "$stamp"; then
	rm -rf "$classifier"
	"$vllm_python" -B -P "$own/make_classifier.py" --tokenizer "$tokenizer_dir" --out "$classifier" >&2
	echo "$stamp" >"$classifier/stamp"
fi

printf '%s\n' "KVSTEER_PRESIDIO_PYTHON=$presidio/bin/python" "KVSTEER_CLASSIFIER=$classifier"
