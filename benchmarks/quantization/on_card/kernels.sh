#!/usr/bin/env bash
# Call 1 of 3, 9 minutes: the chosen kernels against float64 and float16 at every length of a prefill, and the tiles for
# many rows that choice.py has not. Usage: kernels.sh RESULTS     (no engine is needed)
set -uo pipefail
out=$1; here=$(dirname "$0")/..
export PYTHONUNBUFFERED=1 PYTHONPATH=server/src:base/src:sizing/src
layer=(--shapes qkv o gate_up down)
timeout 240 python3 "$here/kernels.py" --weights 8 4 --minutes 3.5 "${layer[@]}" \
  --m 1 10 64 128 192 256 384 512 768 1024 1536 2048 4096 8192 --out "$out/chosen.json" 2>&1 | tee "$out/chosen.log"
timeout 290 python3 "$here/kernels.py" --weights 8 --sweep --minutes 4 "${layer[@]}" --m 220 512 1024 2048 4096 \
  --out "$out/sweep.json" 2>&1 | tee "$out/sweep.log" | tail -60
nvidia-smi --query-gpu=name --format=csv,noheader > "$out/card.txt"
