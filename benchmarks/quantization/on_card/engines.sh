#!/usr/bin/env bash
# Call 2 of 3, 9.5 minutes: whole engines, all started at once and timed one by one: none, fp8_per_channel, fp8, ifq, ifq_nf4
# and int4 (Marlin) as vLLM starts them, with the peak of memory while loading real files; then none and ifq without
# torch.compile, where the host has to keep up. Usage: engines.sh RESULTS [--small]     --small: on a CPU, to test it
set -uo pipefail
out=$1; shift; here=$(dirname "$0")/..; work=$(mktemp -d)
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 VLLM_LOGGING_LEVEL=ERROR
export PYTHONPATH=server/src:base/src:sizing/src${PYTHONPATH:+:$PYTHONPATH}
run() { timeout "$1" python3 "$here/end_to_end.py" --work "$work" --real --limit-s "$(($1 - 10))" "${@:2}" 2>&1 | cut -c1-2000; }
run 400 --out "$out/compiled.json" "$@"
run 170 --out "$out/eager.json" --eager --methods none ifq "$@"
nvidia-smi --query-gpu=name --format=csv,noheader > "$out/card.txt" 2> /dev/null || true
rm -r "$work"
