#!/usr/bin/env bash
# One part of the card's run, on a machine where `setup.sh` ran or has what it needs. Ends within --limit-s of the part.
# Usage: card.sh PART OUT_FOLDER     PART is features, presets, planned or groups
#   LAYER=folder of server.tar.gz and server.env.json (.dev/layer)   ENGINE=folder of the engine (/tmp/site)
#   WORK=folder for models, logs and what is compiled (/tmp/card)    LIMIT_S=seconds (540)
set -euo pipefail
part=$1; out=$2; here=$(cd "$(dirname "$0")" && pwd); shift 2
layer=${LAYER:-.dev/layer}; work=${WORK:-/tmp/card}
mkdir -p "$out" "$work"
[ -x /opt/windlass/bin/python3 ] || "$here/setup.sh" "$layer/server.tar.gz" "${ENGINE:-/tmp/site}" | tee "$out/setup.txt"
export PYTHONPATH=$here/../../lib/api/src:$here/../../lib/base/src PYTHONDONTWRITEBYTECODE=1
program=("$here/run.py" "$part"); [ "$part" != groups ] || program=("$here/groups.py")
exec /opt/windlass/bin/python3 "${program[@]}" --work "$work" --image "$layer/server.env.json" \
  --out "$out/$part.json" --limit-s "${LIMIT_S:-540}" "$@"
