#!/usr/bin/env bash
# Behaviour: transformers 5 writes a model's rope settings under one new key of config.json, rope_parameters, and no longer
#   writes rope_theta and rope_scaling. transformers 4 loads that file without an error or a warning, keeps the unknown
#   key, and takes its own default: rope_theta 10000 instead of Llama 3's 500000, and no scaling.
# Expected: version 5 writes the old keys as well, or version 4 says that it does not know what it reads. The file names
#   the version that wrote it (transformers_version), so there is something to compare with.
# Why users care: who loads a model with version 5, fine-tunes, merges or quantizes it and saves it, has changed it for
#   every program that still reads the old keys. A server with transformers 4 starts, turns every position by a wrong
#   angle, and answers badly; nothing in its log says why.
# Seen with: transformers 5.24.0 as the writer, 4.57.6 as the reader (no torch is needed).
# Exits 1 when the behaviour is another one.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/4.57.6"
"$work/4.57.6/bin/pip" install --quiet --disable-pip-version-check transformers==4.57.6
python3 -m venv "$work/5.24.0"
"$work/5.24.0/bin/pip" install --quiet --disable-pip-version-check transformers==5.24.0
mkdir "$work/model" "$work/saved"
cat > "$work/model/config.json" <<'JSON'
{
  "architectures": ["LlamaForCausalLM"],
  "hidden_size": 64,
  "intermediate_size": 128,
  "max_position_embeddings": 131072,
  "model_type": "llama",
  "num_attention_heads": 4,
  "num_hidden_layers": 2,
  "rope_scaling": {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3"
  },
  "rope_theta": 500000.0,
  "vocab_size": 128
}
JSON
cat > "$work/resave.py" <<'PY'
import sys

import transformers

transformers.AutoConfig.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])
PY
cat > "$work/look.py" <<'PY'
import json
import sys

import transformers

seen = []
for folder in sys.argv[1:]:
    with open(f"{folder}/config.json") as file:
        written = json.load(file)
    config = transformers.AutoConfig.from_pretrained(folder)
    scaling = config.rope_scaling and config.rope_scaling["rope_type"]
    keys = sorted(key for key in written if key.startswith("rope"))
    print(f"  {written.get('transformers_version', 'as published')}, with the keys {keys}:")
    print(f"    transformers {transformers.__version__} reads rope_theta {config.rope_theta}, scaling {scaling}")
    seen.append((config.rope_theta, scaling))
sys.exit(0 if seen == [(500000.0, "llama3"), (10000.0, None)] else 1)
PY
echo "one config.json, as published and as transformers 5.24.0 saved it:"
"$work/5.24.0/bin/python" "$work/resave.py" "$work/model" "$work/saved"
"$work/4.57.6/bin/python" "$work/look.py" "$work/model" "$work/saved" \
  || { echo "changed: version 4 no longer reads its defaults from what version 5 saved"; exit 1; }
