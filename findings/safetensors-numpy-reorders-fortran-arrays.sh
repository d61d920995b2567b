#!/usr/bin/env bash
# Behaviour: safetensors.numpy.save of 0.8.0 writes an array in the order in which its numbers lie in memory, together
#   with the array's shape. An array in Fortran order, which every transposed array is, is written with its numbers at
#   wrong places. Nothing is raised, and the file is a correct one. 0.7.0 wrote the right numbers.
# Expected: the numbers that the array shows, as 0.7.0 wrote them, or the error that safetensors.torch raises for a
#   transposed tensor. (The docstring asks for arrays that are "contiguous and dense"; in NumPy's words an array in
#   Fortran order is both.)
# Why users care: a transposed weight is the usual step of a conversion between two frameworks, and scikit-learn returns
#   Fortran order from its own functions. The converted model loads, every shape is right, and it answers nonsense. Pins
#   such as "safetensors>=0.4" bring 0.8.0 in. Reported to the project as its issue 825.
# Seen with: safetensors 0.8.0, and not with 0.7.0; numpy 2.3.5.
# Exits 1 when the behaviour is another one.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
cat > "$work/look.py" <<'PY'
import sys

import numpy as np
import safetensors
from safetensors.numpy import load, save

weight = np.arange(6, dtype=np.float32).reshape(2, 3)
print(f"safetensors {safetensors.__version__}, numpy {np.__version__}")
kept = {}
for name, array in {"as made": weight, "transposed": weight.T, "np.asfortranarray": np.asfortranarray(weight)}.items():
    back = load(save({"weight": array}))["weight"]
    kept[name] = np.array_equal(array, back)
    print(f"  {name}: saved {array.tolist()}, loaded {back.tolist()}, equal: {kept[name]}")
reordered = kept == {"as made": True, "transposed": False, "np.asfortranarray": False}
sys.exit(0 if (reordered if sys.argv[1] == "reorders" else all(kept.values())) else 1)
PY
try() { # VERSION reorders|keeps
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check "safetensors==$1" numpy==2.3.5
  "$work/venv/bin/python" "$work/look.py" "$2" || { echo "changed: $1 is said to be one that $2 the numbers"; exit 1; }
}
try 0.7.0 keeps
try 0.8.0 reorders
