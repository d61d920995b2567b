"""Runs inside the serving image: makes smoothquant's file for models of several shapes; one line of JSON.

Usage: make_shapes.py FOLDER KIND …     FOLDER has a model directory for each kind. Printed: the groups of each layer,
and what is said of a model that the method cannot do.
"""

import dataclasses
import json
import sys
from pathlib import Path

import torch
from make_smoothquant import data
from windlass.engine.quantization import decoders
from windlass.engine.quantization.smoothquant import make
from windlass.errors import ModelError
from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE

SAMPLES, LENGTH = 8, 64
CANNOT = ("moe", "vision", "mla")


def groups(model: Path) -> list[list[object]]:
    """By group of the last layer: the linear layers, what stands before, and how it takes the smoothing in."""
    opened = decoders.open_model(model, "nothing")
    found = make._groups(opened, list(range(3, 19)))[-1]
    return [[*dataclasses.astuple(group)[:3], group.rows] for group in found]


def quantized(model: Path, samples: Path) -> list[list[object]]:
    """Write the file; the groups."""
    recipe = make.Recipe(str(samples), SAMPLES, LENGTH)
    errors = make.make(model, model / SMOOTHQUANT_FILE, recipe, lambda what, done, of: None)
    assert all(row["error"] <= row["plain"] for row in errors.values())
    return groups(model)


def refused(model: Path) -> str:
    """The sentence."""
    try:
        decoders.open_model(model, make.INSTEAD)
    except ModelError as error:
        return str(error)
    return ""


def main(folder: str, *kinds: str) -> dict[str, object]:
    """Every kind."""
    torch.set_num_threads(1)
    home = Path(folder)
    samples = data(home)
    return {
        "groups": {kind: quantized(home / kind, samples) for kind in kinds},
        "refused": {kind: refused(home / kind) for kind in CANNOT},
    }


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(*sys.argv[1:])))
