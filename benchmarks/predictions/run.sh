#!/usr/bin/env bash
# Measures shapes with random weights on one card, for the table that `windlass plan` predicts from.
# Usage: run.sh OUT.jsonl [measure.py's words]     in the repository's root
#   ENGINE=folder with vLLM (none: Python's own)   WORK=folder for models, caches, logs (/tmp/predictions)
set -uo pipefail
out=$1; shift
work=${WORK:-/tmp/predictions}; mkdir -p "$work"
path=$(python3 benchmarks/quantization/beside.py "$work/beside")
for folder in server/src lib/sizing/src lib/base/src benchmarks/quantization benchmarks/predictions; do path+=:$PWD/$folder; done
export PYTHONPATH=$path${ENGINE:+:$ENGINE}${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 WINDLASS_LICENSE_REQUIRED=false VLLM_ENGINE_READY_TIMEOUT_S=1200
# FlashInfer's sampler and all-reduce are compiled with nvcc at the first start: the engine has others.
export VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_ALLREDUCE_USE_FLASHINFER=0
python3 -c 'import vllm, torch; print("vllm", vllm.__version__, "torch", torch.__version__)' || exit 1
exec python3 benchmarks/predictions/measure.py --work "$work" --out "$out" "$@"
