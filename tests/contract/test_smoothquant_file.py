"""Sizing and server know the file of `windlass quantize smoothquant` by the same name."""

from __future__ import annotations

from windlass.quantization.methods import METHODS, SMOOTHQUANT_FILE
from windlass_sizing import weights


def test_the_file_has_one_name():
    """So that what the tool writes is what inspection finds."""
    assert weights.SMOOTHQUANT_FILE == SMOOTHQUANT_FILE
    assert ("smoothquant", METHODS["smoothquant"].bits) == (weights.SMOOTHQUANT, weights.SMOOTHQUANT_BITS)
