#!/usr/bin/env bash
# Everything that wants a card, in one go with time limits: precision on the processors beside, the trained model with
# every method, then whole engines. Usage: on_card.sh RESULTS HELD_OUT.jsonl SMOOTHQUANT_FILE
set -uo pipefail
out=$1; data=$2; smooth=$3; here=$(dirname "$0"); work=$(mktemp -d)
export VLLM_USE_FLASHINFER_SAMPLER=0 HF_HUB_OFFLINE=1 XDG_CACHE_HOME=$work/cache VLLM_LOGGING_LEVEL=ERROR
cp -r models/demo "$work/demo"; cp "$smooth" "$work/demo/"
(CUDA_VISIBLE_DEVICES="" OMP_NUM_THREADS=6 timeout 170 python3 "$here/precision.py" models/demo --data "$data" \
  --smoothquant "$smooth" --windows 96 --out "$out/precision.json" > "$out/precision.log" 2>&1) & precision=$!
(timeout 120 python3 "$here/end_to_end.py" --checkpoint "$work/checkpoint" --make > "$out/make.log" 2>&1) & made=$!
for method in none ifq ifq_nf4 fp8 smoothquant; do
  echo "== $method" >> "$out/demo.log"
  timeout 90 python3 tests/engine/load_quantized.py "$work/demo" "$method" float16 WINDLASS_ENGINE=cuda \
    VLLM_LOGGING_LEVEL=ERROR 2> "$work/err" | tail -1 >> "$out/demo.log" || tail -c 1500 "$work/err" >> "$out/demo.log"
done
wait "$precision" "$made"
timeout 400 python3 "$here/end_to_end.py" --checkpoint "$work/checkpoint" --limit-s 120 --out "$out/end-to-end.json" 2>&1 | cut -c1-2000 | tee "$out/end-to-end.log"
nvidia-smi --query-gpu=name --format=csv,noheader > "$out/card.txt"
