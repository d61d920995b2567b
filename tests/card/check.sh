#!/usr/bin/env bash
# The trained demo model, a bfloat16 checkpoint, with every method in a real engine: answers, log-probabilities, and what
# layers hold; on a card also compiled as it is served, with a LoRA adapter, and over two cards where there are two.
# Ends with an error when a method does not answer. METHODS="none.tp fp8.tp" runs those alone,
# each way with its `none`.
# Usage: check.sh RESULTS [SMOOTHQUANT_FILE] [--small]
set -uo pipefail
out=$1; shift; here=$(dirname "$0"); work=$(mktemp -d); engine=cuda; smooth=
for word in "$@"; do if [ "$word" = --small ]; then engine=cpu; else smooth=$word; fi; done
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_ALLREDUCE_USE_FLASHINFER=0
export PYTHONPATH=server/src:lib/base/src:lib/sizing/src:$(python3 benchmarks/quantization/beside.py "$work")${PYTHONPATH:+:$PYTHONPATH}
methods=(none fp8 ifq ifq_nf4 ${smooth:+smoothquant})
cp -r models/demo "$work/demo"; [ -z "$smooth" ] || cp "$smooth" "$work/demo/"
if [ $engine = cuda ]; then  # as they are served, with an adapter on top, and over two cards
  for way in compiled adapter; do methods+=("none.$way" "fp8.$way" "ifq.$way" "ifq_nf4.$way"); done
  [ "$(python3 -c 'import torch; print(torch.cuda.device_count())')" -lt 2 ] || methods+=(none.tp fp8.tp ifq.tp ifq_nf4.tp)
  python3 models/tiny/make.py "$work" lora --base models/demo > /dev/null
fi
[ -z "${METHODS:-}" ] || read -ra methods <<< "$METHODS"
for run in "${methods[@]}"; do  # on a card all at once: they are small
  more=()
  case $run in
    *.compiled) more=(compiled=1) ;;
    *.adapter) more=("adapter=$work/lora") ;;
    *.tp) more=(compiled=1 tp=2) ;;
  esac
  [ $engine = cpu ] || more+=(share=0.05 "VLLM_CACHE_ROOT=$work/cache-$run")
  timeout "${LIMIT_S:-360}" python3 tests/engine/quantization/load_quantized.py "$work/demo" "${run%.*}" float16 "WINDLASS_ENGINE=$engine" \
    "${more[@]}" > "$out/demo-$run.log" 2>&1 & [ $engine = cuda ] || wait
done
wait
set -o pipefail; python3 "$here/demo_table.py" "$out" "${methods[@]}" | tee "$out/demo.md"; code=$?
[ $code -ne 0 ] || rm "$out"/demo-*.log
rm -r "$work"
exit $code
