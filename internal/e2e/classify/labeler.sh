#!/usr/bin/env bash
# Run vLLM as a classifier, in the foreground (this process becomes the server):
#   labeler.sh PORT MODEL-DIR [VLLM FLAGS]
# It is ready when GET /health answers 200.
set -euo pipefail
own=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$own/../vllm/common.sh"
[ $# -ge 2 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
port=$1 model=$2
shift 2
[ -x "$vllm_python" ] || die "vLLM is not installed; run setup.sh first"
[ -f "$model/config.json" ] || die "no model in $model; run setup.sh first"
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
export VLLM_CACHE_ROOT=$cache/vllm-home VLLM_CONFIG_ROOT=$cache/vllm-home HF_HOME=$cache/hf-home
export VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_WAIT_POLICY=passive
unset VLLM_CPU_KVCACHE_SPACE
exec "$vllm_python" -B -P "$here/launch.py" --model "$model" --served-model-name labels --runner pooling \
	--dtype float32 --max-model-len 256 --host 127.0.0.1 --port "$port" --enforce-eager \
	--kv-cache-memory-bytes $((32 * 1048576)) --max-num-seqs 16 --disable-uvicorn-access-log "$@"
