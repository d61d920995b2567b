"""The table of cards, and what is advised when memory is short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from windlass_sizing import gpus
from windlass_sizing.advice import advise, quick_table
from windlass_sizing.facts import from_config
from windlass_sizing.formula import Serving

FACTS = from_config(json.loads((Path(__file__).parent / "data" / "Qwen2.5-7B.json").read_text())["config"])
LABELS = {
    "NVIDIA-L20": "L20",
    "PNV5b": "L20",
    "NVIDIA-L40": "L40",
    "NVIDIA-L40S": "L40S",
    "NVIDIA-L4": "L4",
    "NVIDIA-A10": "A10",
    "NVIDIA-A100-SXM4-40GB": "A100-40G",
    "NVIDIA-A100-SXM4-80GB": "A100-80G",
    "NVIDIA-A100-PCIE-40GB": "A100-40G",
    "NVIDIA-H20": "H20",
    "NVIDIA-H200": "H200",
    "NVIDIA-H100-80GB-HBM3": "H100",
    "Tesla-T4": "T4",
    "Tesla-V100-SXM2-16GB": "V100-16G",
    "Tesla-V100-SXM2-32GB": "V100-32G",
    "NVIDIA-GeForce-RTX-4090": "RTX-4090",
    "Radeon-RX": None,
}


@pytest.mark.parametrize(("label", "name"), LABELS.items(), ids=LABELS.keys())
def test_a_node_label_leads_to_its_card(label, name):
    """Labels as the device plugin's feature discovery writes them."""
    found = gpus.find(label)
    assert (found.name if found else None) == name


@pytest.mark.parametrize("card", gpus.GPUS.values(), ids=gpus.GPUS.keys())
def test_a_card_is_found_by_its_own_name(card):
    """Every row finds itself, and the driver never reports more than the box says by much."""
    assert gpus.find(card.name) is card
    assert card.real_gib <= card.memory_gib * 1.025


def test_a_wish_matches_by_label_name_family_and_alias():
    """The ways in which people write a card, and no other card."""
    for wish in ("L20", "l20", "NVIDIA-L20", "PNV5b"):
        assert gpus.matches(wish, "NVIDIA-L20")
    assert gpus.matches("A100", "NVIDIA-A100-SXM4-80GB")
    assert gpus.matches("A100-80G", "NVIDIA-A100-SXM4-80GB")
    assert not gpus.matches("A100-40G", "NVIDIA-A100-SXM4-80GB")
    assert not gpus.matches("L4", "NVIDIA-L40")
    assert gpus.matches("Custom-X", "Custom-X")


def test_advice_comes_in_the_documents_order_with_figures():
    """More GPUs, ifq, less context, utilization 0.95, eager."""
    lines = advise(FACTS, Serving(8192), 16, (8, 6))
    starts = [
        "more or larger",
        "engine.quantization ifq",
        "engine.maxModelLen",
        "engine.gpuMemory",
        "engine.enforceEager",
    ]
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=True)] == [True] * 5
    assert "fits 16.0 GiB" in lines[1]


def test_advice_leaves_out_what_would_not_help():
    """No ifq on a quantized checkpoint or an old card, no shorter context below the short one, no eager twice."""
    tight = Serving(2048, quantization="fp8", utilization=0.95, enforce_eager=True)
    assert len(advise(FACTS, tight, 16)) == 1
    assert not any("ifq" in line for line in advise(FACTS, Serving(8192), 16, (6, 1)))


@pytest.mark.parametrize(("billions", "start"), [(7.6, "6–8B"), (14.8, "12–14B"), (72.7, "65–72B"), (32.8, "")])
def test_the_quick_table_knows_the_usual_sizes(billions, start):
    """A size between the rows has none."""
    row = quick_table(round(billions * 1e9))
    assert row.startswith(start)
    assert bool(row) == bool(start)
