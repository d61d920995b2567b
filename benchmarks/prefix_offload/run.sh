#!/usr/bin/env bash
# One part of the card's run, in the repository's root; the same command goes on where it stopped.
# Usage: run.sh speed|checks|tensor-parallel SECONDS OUT_FOLDER CONVERSATION.jsonl DOCUMENTS.jsonl
#   ENGINE=folder with vLLM (none: Python's own)   WORK=folder for models, caches and rows (/tmp/prefix-offload)
#   CORE=folder of windlass_lookahead (none: Python's own)   ARMS=plain,windlass,native   ONLY=outputs,counts,kills,memory
set -uo pipefail
part=$1 seconds=$2 out=$3 talks=$(realpath "$4") documents=$(realpath "$5")
work=${WORK:-/tmp/prefix-offload}; mkdir -p "$work" "$out"
path=$(python3 benchmarks/quantization/beside.py "$work/beside")
for folder in server/src lib/sizing/src lib/base/src benchmarks/prefix_offload; do path+=:$PWD/$folder; done
export PYTHONPATH=$path${CORE:+:$CORE}${ENGINE:+:$ENGINE}${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 WINDLASS_LICENSE_REQUIRED=false VLLM_ENGINE_READY_TIMEOUT_S=1200
# FlashInfer's sampler and all-reduce are compiled with nvcc at the first start: the engine has others.
export VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_ALLREDUCE_USE_FLASHINFER=0 VLLM_LOGGING_LEVEL=${VLLM_LOGGING_LEVEL:-WARNING}
nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sort | uniq -c
free -g | sed -n 2p; df -BG --output=size,avail /dev/shm | tail -1; nproc
python3 -c 'import vllm, torch; print("vllm", vllm.__version__, "torch", torch.__version__)' || exit 1
python3 -c 'import lmcache; print("lmcache", lmcache.__version__)' 2>/dev/null || echo "lmcache: not installed here"
python3 -c 'import windlass_lookahead._core' || echo "the lookahead core does not load: that row will fail"
# Two engines keep prefixes: each takes a part of /dev/shm, and 24 GiB at most.
room=$(( ($(df -BG --output=avail /dev/shm | tail -1 | tr -dc 0-9) - 4) / 2 )); gib=$(( room < 24 ? room : 24 ))
keep() { cp "$work"/*.jsonl "$work"/*.log "$out"/ 2>/dev/null; }
trap keep EXIT
cd benchmarks/prefix_offload || exit 1
case $part in
  speed) python3 on_device.py "$work/speed.jsonl" --seconds "$seconds" --turns "${TURNS:-110}" --host-gib "$gib" \
    --arms "${ARMS:-plain,windlass,native}" --model "$work/llama-3.1-8b-shape" \
    --trace "conversation=$talks" --trace "documents=$documents" ${MORE:-} 2> >(tee -a "$work/speed.log" | tail -c 3000 >&2) ;;
  checks) python3 identity.py "$work/checks.jsonl" --seconds "$seconds" --trace "$talks" --work "$work" \
    --only "${ONLY:-outputs,counts,kills,memory}" ${MORE:-} 2> >(tee -a "$work/checks.log" | tail -c 3000 >&2) ;;
  tensor-parallel) python3 identity.py "$work/ranks.jsonl" --seconds "$seconds" --trace "$talks" --work "$work" \
    --only outputs --ranks 2 2> >(tee -a "$work/ranks.log" | tail -c 3000 >&2) ;;
  *) echo "there is no part $part"; exit 2 ;;
esac
