#!/usr/bin/env bash
# Every method that drafts on one card, in the repository's root; the same command goes on where it stopped.
# Usage: on_card.sh OUT_FOLDER [words of run.py, as --acceptance 0.6 0.8]
#   ENGINE=folder with vLLM and its needs (none: Python's own)   WORK=folder for models and caches (/tmp/speculation)
#   CORE=folder of windlass_lookahead (none: Python's own)   SECONDS_MAX=540
set -uo pipefail
out=$1; shift; here=$(cd "$(dirname "$0")" && pwd); work=${WORK:-/tmp/speculation}
mkdir -p "$out" "$work"
export PYTHONPATH=${CORE:+$CORE:}${ENGINE:+$ENGINE:}${PYTHONPATH:-}
nvidia-smi --query-gpu=name,memory.used --format=csv,noheader 2>/dev/null; nproc; df -BG --output=avail "$work" | tail -1
python3 -c 'import vllm, torch; print("vllm", vllm.__version__, "torch", torch.__version__)' || exit 1
# Rows of an earlier call on this machine lie in WORK; a fresh one has those that are brought in OUT_FOLDER.
[ -f "$work/methods.jsonl" ] || cp "$out/methods.jsonl" "$work/methods.jsonl" 2>/dev/null
timeout "$(( ${SECONDS_MAX:-540} + 50 ))" python3 "$here/run.py" "$work/methods.jsonl" --work "$work" --seconds "${SECONDS_MAX:-540}" "$@"
code=$?
cp "$work/methods.jsonl" "$out"/
python3 "$here/table.py" "$work/methods.jsonl" | tee "$out/methods.md"
tail -c 300000 "$work"/*.log > "$out/logs.txt" 2>/dev/null; gzip -f "$out/logs.txt"
exit $code
