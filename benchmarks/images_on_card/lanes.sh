#!/usr/bin/env bash
# Runs several measurements beside each other on one machine, each with cards, processors and a time of its own.
# Standard input has a line for each: NAME CARDS PROCESSORS SECONDS COMMAND…, as `prompts 0 0-15 500 bash prompts.sh`.
# Usage: lanes.sh OUT_FOLDER < LANES     each writes OUT_FOLDER/NAME.log; ends with 1 where one failed or ran out of time
# Lanes that start the GPU image's own layer come after one `setup.sh`, and each has a WORK of its own.
set -uo pipefail
out=$1; mkdir -p "$out"
declare -A pids=() lanes=()
end() { for pid in "${pids[@]}"; do pkill -KILL -s "$pid"; done; exit 130; }
trap end INT TERM
while read -r name rest || [ -n "$name" ]; do
  [ -n "$name" ] || continue
  [ -z "${lanes[$name]:-}" ] || { echo "lanes.sh: two lanes are named $name; give each a name" >&2; exit 2; }
  lanes[$name]=$rest
done
[ "${#lanes[@]}" -gt 0 ] || { echo "lanes.sh: standard input has no lane: NAME CARDS PROCESSORS SECONDS COMMAND" >&2; exit 2; }
for name in "${!lanes[@]}"; do
  read -r cards cores seconds command <<< "${lanes[$name]}"
  CUDA_VISIBLE_DEVICES=$cards OUT=$out/$name setsid taskset -c "$cores" timeout -k 20 "$seconds" bash -c "$command" \
    > "$out/$name.log" 2>&1 < /dev/null &
  pids[$name]=$!
done
failed=0
for name in "${!pids[@]}"; do
  wait "${pids[$name]}"; status=$?
  # What a benchmark left behind has its session: nothing of it stays on the card.
  pkill -KILL -s "${pids[$name]}" 2>/dev/null
  echo "$name: exit $status, $(grep -c '' "$out/$name.log") lines"
  [ "$status" -eq 0 ] || failed=1
done
exit "$failed"
