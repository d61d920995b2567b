"""Our verdict on each checkpoint's method, compute capability and number format is that of the engine's own classes.

`engine_verdicts.json` is what `tests/engine/models/print_abilities.py` prints: for each method and compute capability
the number formats that are taken. `tests/engine/models/test_abilities.py` holds it to the installed engine.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from windlass_sizing.quantization import methods
from windlass_sizing.quantization.decision import decide
from windlass_sizing.quantization.engine import ENGINE
from windlass_sizing.quantization.question import Architecture, Card, Checkpoint

FILE = Path(__file__).with_name("engine_verdicts.json")
RECORDED: dict[str, dict[str, list[str]]] = json.loads(FILE.read_text())
DTYPES = ("float16", "bfloat16", "float32")
CELLS = [
    (name, divmod(int(capability), 10), dtype, dtype in taken)
    for name, cards in RECORDED.items()
    if name in methods.READERS
    for capability, taken in cards.items()
    for dtype in DTYPES
]
# The classes do not know what the wheels hold code for, which is a limit of its own.
WITH_CODE = [cell for cell in CELLS if ENGINE.has_code(cell[1])]
MUCH, LITTLE = (13, 0), (0, 0)


def different() -> list[tuple[str, tuple[int, int], str]]:
    """The cells where we say another thing than the engine's classes."""
    return [
        (name, capability, dtype)
        for name, capability, dtype, is_taken in WITH_CODE
        if (decide(None, dtype, Card("card", capability), Architecture(), Checkpoint(name)).problem is None) != is_taken
    ]


def test_every_verdict_is_the_engine_s() -> None:
    """No cell differs, and no method of the engine is left out."""
    assert different() == []
    assert (len(CELLS), len(WITH_CODE)) == (648, 567)
    assert set(RECORDED) == set(ENGINE.methods)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mxfp4", {"capability": (8, 9)}),
        ("mxfp4", {"dtypes": ("bfloat16", "float16")}),
        ("gpt_oss_mxfp4", {"capability": MUCH}),
        ("fp8", {"capability": (8, 0)}),
        ("fp8", {"dtypes": ("bfloat16",)}),
        ("modelopt", {"capability": (8, 9)}),
        ("modelopt_mxfp8", {"dtypes": ("bfloat16", "float16")}),
        ("awq", {"capability": (8, 0)}),
        ("compressed-tensors", {"dtypes": ("bfloat16", "float16")}),
        ("modelopt", {"capability": LITTLE}),
        ("gptq", {"dtypes": ("float16",)}),
    ],
)
def test_a_row_that_is_wrong_is_caught(monkeypatch: pytest.MonkeyPatch, name: str, change: dict[str, object]) -> None:
    """One least capability or one number format that is not the engine's shows as a difference of that method alone."""
    monkeypatch.setitem(ENGINE.methods, name, replace(ENGINE.methods[name], **change))
    assert {cell[0] for cell in different()} == {name}
