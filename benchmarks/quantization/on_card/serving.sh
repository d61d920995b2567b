#!/usr/bin/env bash
# Call 3 of 3, 9.5 minutes: the demo model with every method (check.sh), then the serving table over HTTP.
# Usage: serving.sh RESULTS SMOOTHQUANT_FILE [--small]     --small: on a CPU, to test it
set -uo pipefail
out=$1; smooth=$2; shift 2; here=$(dirname "$0")/..; work=$(mktemp -d)
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
"$here/on_card/check.sh" "$out" "$smooth" "$@"
timeout 420 python3 "$here/serving.py" --work "$work" --limit-s 220 --out "$out/serving.json" "$@" 2>&1 | cut -c1-2000
cp "$work"/*.log "$out/"; tail -c 100000 "$out"/*.log > "$out/servers.txt"; rm -r "$out"/*.log "$work"
