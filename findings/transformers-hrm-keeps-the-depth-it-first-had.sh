#!/usr/bin/env bash
# Behaviour: HrmTextConfig takes num_hidden_layers for the layers of one stack and rewrites it to all layers that run, 16 to
#   128. It does so only where num_layers_per_stack is not set yet, and a saved configuration sets it. From then on
#   num_hidden_layers changes nothing but itself: loaded again with num_hidden_layers=2 the configuration says 2, and
#   the stacks keep their 16 layers. In the same way H_cycles=1 leaves 128, where a configuration made with 1 says 64.
#   Nothing is raised and nothing is printed.
# Expected: as with other models, num_hidden_layers sets the depth of the model that is built, or an error says that it
#   does not; and the number of layers that run follows H_cycles.
# Why users care: num_hidden_layers=2 is the usual way to try a large model out on a small machine: here the whole model is
#   built all the same. Programs that make room for keys and values by num_hidden_layers make room for 2 layers of 128.
# Seen with: transformers 5.24.0 (no torch is needed).
# Exits 1 when the behaviour is another one.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check transformers==5.24.0
cat > "$work/look.py" <<'PY'
import sys
import tempfile

import transformers


def depths(title, config):
    """Print and return the layers that run and those of a stack."""
    found = (config.num_hidden_layers, config.num_layers_per_stack)
    print(f"{title:60} num_hidden_layers {found[0]:4}, num_layers_per_stack {found[1]}")
    return found


print(f"transformers {transformers.__version__}")
made = transformers.HrmTextConfig(num_hidden_layers=16)
once = transformers.HrmTextConfig(num_hidden_layers=16, H_cycles=1)
with tempfile.TemporaryDirectory() as folder:
    made.save_pretrained(folder)
    load = transformers.AutoConfig.from_pretrained
    results = [
        depths("made with num_hidden_layers=16", made),
        depths("made with num_hidden_layers=16 and H_cycles=1", once),
        depths("saved and loaded", load(folder)),
        depths("saved and loaded with num_hidden_layers=2", load(folder, num_hidden_layers=2)),
        depths("saved and loaded with H_cycles=1", load(folder, H_cycles=1)),
    ]
sys.exit(0 if results == [(128, 16), (64, 16), (128, 16), (2, 16), (128, 16)] else 1)
PY
"$work/venv/bin/python" "$work/look.py" || { echo "changed: a loaded configuration of HRM follows num_hidden_layers or H_cycles"; exit 1; }
