# Sourced by the other scripts: where things are. Everything that is installed
# or generated lives in the cache directory, never in the checkout.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${KVSTEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvsteer}

vllm_python=${KVSTEER_VLLM_PYTHON:-$cache/vllm/bin/python}
guidellm_bin=$cache/guidellm/bin/guidellm
tokenizer_dir=$cache/tokenizer-qwen3
model_dir=$cache/model-tiny

die() {
	echo "${0##*/}: $*" >&2
	exit 1
}
