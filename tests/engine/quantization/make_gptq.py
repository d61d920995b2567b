"""Runs inside the serving image: makes a GPTQ checkpoint of the demo model by the command; one line of JSON.

Usage: make_gptq.py FOLDER     FOLDER/model is the checkpoint. Printed: the table's errors, and for each linear layer
how far its own tensors are from the original weights.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from make_smoothquant import data
from safetensors.torch import load_file
from windlass.engine.quantization.gptq.packing import unpacked
from windlass.engine.quantization.gptq.solve import nearest

PARTS = ("qweight", "qzeros", "scales", "g_idx")
PROGRAM = "from windlass.cli.main import main; main()"


def distances(original: Path, made: Path) -> dict[str, float]:
    """By layer: the relative distance of the weights, by that of the nearest codes."""
    before, after = (load_file(next(folder.glob("*.safetensors"))) for folder in (original, made))
    found = {}
    for name in [name.removesuffix(".qweight") for name in after if name.endswith(".qweight")]:
        weight = before[f"{name}.weight"].float()
        rounded = unpacked({part: after[f"{name}.{part}"] for part in PARTS})
        found[name] = float((rounded - weight).norm() / (nearest(weight).weight() - weight).norm())
    return found


def main(folder: str) -> dict[str, object]:
    """Run the command, and read what it wrote."""
    torch.set_num_threads(1)
    home, demo = Path(folder), Path(os.environ.get("DEMO", "/demo"))
    made = home / "model"
    words = ["quantize", "gptq", str(demo), "--data", str(data(home)), "--out", str(made), "--samples", "32"]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True)
    again = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False)
    errors = dict(line.split() for line in done.stdout.splitlines() if line.startswith("model.layers"))
    return {
        "errors": {name: float(error) for name, error in errors.items()},
        "distances": distances(demo, made),
        "config": json.loads((made / "config.json").read_text())["quantization_config"],
        "files": sorted(file.name for file in made.iterdir()),
        "again": [again.returncode, again.stderr.strip().splitlines()[-1]],
        "progress": done.stderr,
    }


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(*sys.argv[1:])))
