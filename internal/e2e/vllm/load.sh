#!/usr/bin/env bash
# Send one GuideLLM workload to an OpenAI endpoint and write
# OUT/guidellm.json (the full report), OUT/summary.json (what we compare) and
# OUT/guidellm.log. Needs no network but the target.
#
#   load.sh URL WORKLOAD OUT [options]
#
# The same seed gives the same prompts in the same order, so empty the engines'
# caches (or restart them) between two runs that are to be compared.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
	cat >&2 <<-'EOF'
		usage: load.sh URL WORKLOAD OUT [options]

		workloads
		  shared-prefix   12 system prompts of 2,560 tokens, each request picks one and
		                  adds 128 tokens of its own; 16 tokens out; Poisson arrivals
		  multi-turn      conversations of 5 turns: 1,024 tokens, then 192 more in each
		                  turn, with the history sent again; 24 tokens out; N users

		options
		  --model NAME      model in the requests             (default tiny)
		  --tokenizer DIR   local tokenizer directory         (default: from setup.sh)
		  --seed N          seed of the prompts               (default 42)
		  --requests N      stop after N requests             (default 80, 100)
		  --rate R          shared-prefix: requests a second  (default 1.2)
		  --users N         multi-turn: concurrent users      (default 3)
		  --prefixes N      shared-prefix: system prompts     (default 12)
		  --max-seconds N   stop after N seconds in any case  (default 120)
	EOF
	exit 2
}

[ $# -ge 3 ] || usage
url=$1 workload=$2 out=$3
shift 3
model=tiny tokenizer=$model_dir seed=42 requests= rate=1.2 users=3 prefixes=12 max_seconds=120
while [ $# -gt 0 ]; do
	[ $# -ge 2 ] || { echo "load.sh: $1 needs a value" >&2; usage; }
	case $1 in
	--model) model=$2 ;;
	--tokenizer) tokenizer=$2 ;;
	--seed) seed=$2 ;;
	--requests) requests=$2 ;;
	--rate) rate=$2 ;;
	--users) users=$2 ;;
	--prefixes) prefixes=$2 ;;
	--max-seconds) max_seconds=$2 ;;
	*) echo "load.sh: unknown option $1" >&2; usage ;;
	esac
	shift 2
done

case $workload in
shared-prefix)
	requests=${requests:-80}
	profile=kind=poisson,rate=$rate
	data=kind=synthetic_text,prompt_tokens=128,output_tokens=16,prefix_count=$prefixes,prefix_tokens=2560
	;;
multi-turn)
	requests=${requests:-100}
	profile=kind=concurrent,streams=$users
	data=kind=synthetic_text,turns=5,first_prompt_tokens=1024,prompt_tokens=192,output_tokens=24
	;;
*) echo "load.sh: unknown workload $workload" >&2; usage ;;
esac

[ -x "$guidellm_bin" ] || die "GuideLLM is not installed; run setup.sh first"
[ -f "$tokenizer/tokenizer.json" ] || die "no tokenizer in $tokenizer; run setup.sh first"
mkdir -p "$out"
rm -f "$out/guidellm.json" "$out/summary.json"

export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME=$cache/hf-home DO_NOT_TRACK=1
export TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
export GUIDELLM__MAX_WORKER_PROCESSES=1 # the machine has two cores, and they are the engines'

if ! "$guidellm_bin" run \
	--backend "kind=openai_http,target=$url,model=$model,request_format=/v1/chat/completions,http2=false,timeout=60" \
	--profile "$profile" \
	--constraint "kind=max_requests,count=$requests" \
	--constraint "kind=max_duration,seconds=$max_seconds" \
	--constraint "kind=max_errors,count=20" \
	--tokenizer "kind=huggingface_auto,model=$tokenizer" \
	--data "$data" \
	--data-loader kind=pytorch,prefetch_factor=16 \
	--seed "kind=static,value=$seed" \
	--metrics kind=generative,sample_size=0 \
	--output "kind=json,path=$out/guidellm.json" \
	--disable-console-interactive >"$out/guidellm.log" 2>&1; then
	tail -n 20 "$out/guidellm.log" >&2
	die "GuideLLM failed, see $out/guidellm.log"
fi
[ -f "$out/guidellm.json" ] || die "GuideLLM wrote no report, see $out/guidellm.log"
exec "$cache/guidellm/bin/python" -B -I "$here/summary.py" "$workload" "$out/guidellm.json" "$out/summary.json"
