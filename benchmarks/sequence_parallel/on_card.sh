#!/usr/bin/env bash
# One call on a machine with two GPUs. Usage, in the repository's root: on_card.sh probe|identity|prefill OUT_FOLDER [words]
#   ENGINE=folder with vLLM and its needs (/tmp/site)   WORK=folder for models and what is compiled (/tmp/sp)
# probe: 2 minutes; a start, three prompts. identity: call 1. prefill: call 2. Logs go to OUT_FOLDER.
set -uo pipefail
part=$1; out=$2; shift 2; here=$(cd "$(dirname "$0")" && pwd); root=$here/../..; work=${WORK:-/tmp/sp}
mkdir -p "$out" "$work"
names=$(python3 "$here/../quantization/beside.py" "$work")
export PYTHONPATH=$root/server/src:$root/lib/base/src:$root/lib/sizing/src:$here:$names:${ENGINE:-/tmp/site}${PYTHONPATH:+:$PYTHONPATH}
export PYTHONUNBUFFERED=1 NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
nvidia-smi topo -m 2>&1 | head -6; nvidia-smi --query-gpu=name,memory.used --format=csv,noheader
case $part in
  probe) timeout "${LIMIT_S:-260}" python3 "$here/identity.py" "$out/probe.jsonl" --quick --work "$work" "$@" ;;
  identity) timeout "${LIMIT_S:-500}" python3 "$here/identity.py" "$out/identity.jsonl" --work "$work" "$@" ;;
  prefill) timeout "${LIMIT_S:-560}" python3 "$here/prefill.py" "$out/prefill.jsonl" --work "$work" "$@" ;;
esac
code=$?
tail -c 2000000 "$work"/*/*.log > "$out/$part.logs.txt" 2> /dev/null; gzip -f "$out/$part.logs.txt"
exit $code
