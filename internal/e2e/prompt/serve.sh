#!/usr/bin/env bash
# Run serve.py with vLLM's Python, in the foreground:
#   serve.sh PORT NAME=DIR [FLAGS] [NAME=DIR [FLAGS]]...
# It ends on SIGTERM and with its process group.
set -euo pipefail
own=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$own/../vllm/common.sh"
[ $# -ge 2 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
[ -x "$vllm_python" ] || die "vLLM is not installed; run ../vllm/setup.sh first"
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TZ=UTC
export VLLM_CACHE_ROOT=$cache/vllm-home VLLM_CONFIG_ROOT=$cache/vllm-home HF_HOME=$cache/hf-home OMP_NUM_THREADS=1
[ ! -d "$cache/torchvision-0.28.0" ] || export PYTHONPATH=$cache/torchvision-0.28.0
exec "$vllm_python" -B -P "$own/serve.py" "$@"
