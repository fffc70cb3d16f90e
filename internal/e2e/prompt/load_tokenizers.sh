#!/usr/bin/env bash
# Run load_tokenizers.py with vLLM's Python.
set -euo pipefail
own=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$own/../vllm/common.sh"
[ -x "$vllm_python" ] || die "vLLM is not installed; run ../vllm/setup.sh first"
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_LOGGING_LEVEL=ERROR
export VLLM_CACHE_ROOT=$cache/vllm-home VLLM_CONFIG_ROOT=$cache/vllm-home HF_HOME=$cache/hf-home OMP_NUM_THREADS=1
exec "$vllm_python" -B -P "$own/load_tokenizers.py"
