#!/usr/bin/env bash
# The trained demo model, a bfloat16 checkpoint, with every method in a real engine: answers, log-probabilities, and what
# layers hold. Ends with an error when a method does not answer. Usage: check.sh RESULTS [SMOOTHQUANT_FILE] [--small]
set -uo pipefail
out=$1; shift; here=$(dirname "$0")/..; work=$(mktemp -d); engine=cuda; smooth=
for word in "$@"; do if [ "$word" = --small ]; then engine=cpu; else smooth=$word; fi; done
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 VLLM_USE_FLASHINFER_SAMPLER=0
export PYTHONPATH=server/src:sizing/src${PYTHONPATH:+:$PYTHONPATH}
methods=(none fp8 ifq ifq_nf4 ${smooth:+smoothquant})
cp -r models/demo "$work/demo"; [ -z "$smooth" ] || cp "$smooth" "$work/demo/"
for method in "${methods[@]}"; do  # on a card all at once: they are small
  timeout "${LIMIT_S:-150}" python3 tests/engine/load_quantized.py "$work/demo" "$method" float16 "WINDLASS_ENGINE=$engine" \
    > "$out/demo-$method.log" 2>&1 & [ $engine = cuda ] || wait
done
wait
set -o pipefail; python3 "$here/demo_table.py" "$out" "${methods[@]}" | tee "$out/demo.md"; code=$?
[ $code -ne 0 ] || rm "$out"/demo-*.log
rm -r "$work"
exit $code
