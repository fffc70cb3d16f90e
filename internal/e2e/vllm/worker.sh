#!/usr/bin/env bash
# Run ONE vLLM server in the foreground (this process becomes the server).
#
#   worker.sh --port N --events-port N --replay-port N [options] [-- VLLM FLAGS]
#
# Kill it with SIGTERM (about a second) or SIGKILL to the pid: its helper
# processes end with it. It is ready when GET /health answers 200.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
	cat >&2 <<-'EOF'
		usage: worker.sh --port N --events-port N --replay-port N [options] [-- VLLM FLAGS]

		  --port N           HTTP port
		  --events-port N    ZeroMQ PUB port for KV events
		  --replay-port N    ZeroMQ ROUTER port for the replay of KV events
		  --name NAME        served model name                     (default tiny)
		  --model DIR        model directory                       (default: from setup.sh)
		  --topic TOPIC      topic of the events; may be empty     (default kv@127.0.0.1:PORT@NAME)
		  --bind ADDR        address of all three ports            (default 127.0.0.1)
		  --block-size N     a multiple of 32                      (default 32)
		  --cache-mib N      KV cache in MiB; 1 MiB = 341 tokens   (default 64)
		  --blocks N         KV cache in blocks, instead of --cache-mib
		  --max-model-len N                                        (default 16384)
		  --hash-algo A      --prefix-caching-hash-algo            (default sha256_cbor)
		  --threads N        OpenMP threads                        (default 1)
		  --no-events        do not publish KV events
		  --no-dev           without the development endpoints (/reset_prefix_cache, /server_info)
		  --old              without the flags that releases before 0.24 do not know

		KVSTEER_VLLM_PYTHON is the Python of another installed release.
	EOF
	exit 2
}

port= events_port= replay_port= model=$model_dir name=tiny bind=127.0.0.1
block_size=32 cache_mib=64 blocks= max_len=16384 hash_algo=sha256_cbor threads=1 dev=1 events=1 old=0
topic= topic_set=
while [ $# -gt 0 ]; do
	case $1 in
	--no-dev) dev=0; shift; continue ;;
	--no-events) events=0; shift; continue ;;
	--old) old=1; shift; continue ;;
	--) shift; break ;;
	-h | --help) usage ;;
	esac
	[ $# -ge 2 ] || { echo "worker.sh: $1 needs a value" >&2; usage; }
	case $1 in
	--port) port=$2 ;;
	--events-port) events_port=$2 ;;
	--replay-port) replay_port=$2 ;;
	--model) model=$2 ;;
	--name) name=$2 ;;
	--topic) topic=$2 topic_set=1 ;;
	--bind) bind=$2 ;;
	--block-size) block_size=$2 ;;
	--cache-mib) cache_mib=$2 ;;
	--blocks) blocks=$2 ;;
	--max-model-len) max_len=$2 ;;
	--hash-algo) hash_algo=$2 ;;
	--threads) threads=$2 ;;
	*) echo "worker.sh: unknown option $1" >&2; usage ;;
	esac
	shift 2
done

number() { case $2 in '' | *[!0-9]*) die "$1 needs a number, got '$2'" ;; esac; }
number --port "$port"
number --block-size "$block_size"
number --cache-mib "$cache_mib"
number --max-model-len "$max_len"
number --threads "$threads"
[ -z "$blocks" ] || number --blocks "$blocks"
[ $((block_size % 32)) = 0 ] || die "--block-size must be a multiple of 32: vLLM's CPU attention takes no other"
[ -x "$vllm_python" ] || die "vLLM is not installed; run setup.sh first"
[ -f "$model/config.json" ] || die "no model in $model; run setup.sh first"
[ -n "$topic_set" ] || topic="kv@127.0.0.1:$port@$name"

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
for p in $port $events_port $replay_port; do
	# The engine process of a server that was just killed may hold its ports a moment longer.
	for ((waited = 0; ; waited++)); do
		taken "$p" || break
		[ $waited -lt 60 ] || die "port $p is already in use"
		sleep 0.5
	done
done

args=(
	--model "$model" --served-model-name "$name" --load-format dummy
	--host "$bind" --port "$port"
	--block-size "$block_size" --max-model-len "$max_len"
	--enable-prefix-caching --prefix-caching-hash-algo "$hash_algo"
	--enable-prompt-tokens-details
	--enforce-eager # compiling would cost minutes at each start
	--max-num-batched-tokens 2048 --max-num-seqs 16
	--disable-uvicorn-access-log
)
# The size in bytes is fixed also when --blocks is given, so that vLLM does not
# take a share of the whole memory first.
if [ "$old" = 1 ]; then
	export VLLM_CPU_KVCACHE_SPACE=1 # GiB
else
	unset VLLM_CPU_KVCACHE_SPACE # it would win over --kv-cache-memory-bytes
	args+=(--enable-scale-out --kv-cache-memory-bytes $((cache_mib * 1048576)))
fi
[ -z "$blocks" ] || args+=(--num-gpu-blocks-override "$blocks")
if [ "$events" = 1 ]; then
	number --events-port "$events_port"
	number --replay-port "$replay_port"
	# vLLM binds the PUB socket only for an endpoint with "*" (or "::"); with an
	# address it would connect. The replay socket binds either way.
	args+=(--kv-events-config "{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:$events_port\",\"replay_endpoint\":\"tcp://$bind:$replay_port\",\"buffer_steps\":10000,\"topic\":\"$topic\"}")
fi

# No network, no usage statistics, no files outside the cache directory.
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
export VLLM_CACHE_ROOT=$cache/vllm-home VLLM_CONFIG_ROOT=$cache/vllm-home HF_HOME=$cache/hf-home
export VLLM_SERVER_DEV_MODE=$dev
# vLLM would pin each worker to the same cores and spin in barriers.
export VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=$threads OMP_WAIT_POLICY=passive
[ "$threads" != 1 ] || export MKL_NUM_THREADS=1

exec "$vllm_python" -B -P "$here/launch.py" "${args[@]}" "$@"
