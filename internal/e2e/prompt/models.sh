#!/usr/bin/env bash
# Write the model directories (make_models.py) into the cache; prints where.
#   models.sh real    families with real tokenizers, into the cache directory
#   models.sh media   models that take images, into the cache directory
#   models.sh small   the small ones of the unit tests, into kvcache/prompt/local/testdata
set -euo pipefail
own=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$own/../vllm/common.sh"
case ${1:-} in
real)
	[ -f "$cache/tokenizers/gemma3/tokenizer.json" ] || "$own/../../../scripts/tokenizer-files.sh" >&2
	out=$cache/prompt-models
	mkdir -p "$out"
	"$vllm_python" -B "$own/make_models.py" real "$cache/tokenizers" "$out" >&2
	echo "$out"
	;;
media)
	[ -f "$cache/tokenizers/gemma3/tokenizer.json" ] || "$own/../../../scripts/tokenizer-files.sh" >&2
	[ -d "$cache/templates" ] || "$own/../jinja/fetch.sh" >&2
	tv=$cache/torchvision-0.28.0 # processors of images are made with it; serve.sh finds it
	[ -d "$tv" ] || "$cache/boot/bin/uv" pip install -q --no-deps --python "$vllm_python" --target "$tv" torchvision==0.28.0 >&2
	out=$cache/prompt-media
	mkdir -p "$out"
	"$vllm_python" -B "$own/make_media.py" "$cache/tokenizers" "$cache/templates" "$out" >&2
	echo "$out"
	;;
small)
	out=$(cd "$own/../../.." && pwd)/kvcache/prompt/local/testdata/models
	mkdir -p "$out"
	"$vllm_python" -B "$own/make_models.py" small "$out" >&2
	echo "$out"
	;;
*)
	echo "usage: models.sh real|media|small" >&2
	exit 2
	;;
esac
