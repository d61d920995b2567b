#!/usr/bin/env bash
# Servers beside each other on one card, nine where it has 141 GB, measured one after another; the same command goes on where it stopped.
# Usage: run.sh MODEL_FOLDER CONVERSATIONS.json OUT_FOLDER     in the repository's root
#   MODEL_FOLDER   config.json and a tokenizer; weights are random      CONVERSATIONS   ShareGPT's format
#   ENGINE=folder with vLLM (none: Python's own)   METHODS=none,fp8,ifq,ifq_nf4   TEMPERATURES=0,0.7   ROUNDS=8
#   STOCK=no leaves stock vLLM out: five servers are what a card of 80 GB holds
set -uo pipefail
model=$(realpath "$1") talks=$(realpath "$2") out=$3
names=$(mktemp -d); trap 'rm -rf "$names"' EXIT
path=$(python3 benchmarks/quantization/beside.py "$names")
for folder in server/src lib/sizing/src lib/base/src benchmarks/lookahead; do path+=:$PWD/$folder; done
export PYTHONPATH=$path${ENGINE:+:$ENGINE}${PYTHONPATH:+:$PYTHONPATH} FORCED_TALKS=$talks
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 WINDLASS_LICENSE_REQUIRED=false VLLM_ENGINE_READY_TIMEOUT_S=1200
# FlashInfer's sampler and all-reduce are compiled with nvcc at the first start: the engine has others.
export VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_ALLREDUCE_USE_FLASHINFER=0
# A KV cache of 1.5 GiB holds ten requests; nobody's share of the memory depends on the other servers.
common="--load-format dummy --dtype float16 --max-model-len 2048 --max-num-seqs 32 --max-num-batched-tokens 2048
 --gpu-memory-utilization 0.05 --kv-cache-memory-bytes 1610612736 --no-enable-prefix-caching --logits-processors forced_talks:Talks"
stock=(--stock --stock-flags "$common"); [ "${STOCK:-yes}" = yes ] || stock=()
exec python3 -m windlass.cli.main bench run --model "$model" \
  --matrix "quantization=${METHODS:-none,fp8,ifq,ifq_nf4}" lookahead=off,on concurrency=10 "temperature=${TEMPERATURES:-0,0.7}" \
  --flags "$common --cpu-decoding-memory-utilization 0.02" "${stock[@]}" --together \
  --api completions --ignore-eos --dataset sharegpt --dataset-path "$talks" \
  --num-prompts 30 --rounds "${ROUNDS:-8}" --warmup 20 --start-seconds "${START:-330}" --seconds "${SECONDS_IN_ALL:-430}" \
  --metadata gpu="$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)" --output-dir "$out"
