"""The table of cards, and what is advised when memory is short."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from windlass_sizing.model.facts import from_config
from windlass_sizing.placement import gpus
from windlass_sizing.placement.advice import advise, gains, one_gpu_suffices
from windlass_sizing.placement.choice import Offer
from windlass_sizing.placement.formula import Serving
from windlass_testbed.cases import every_case

FACTS = from_config(json.loads((Path(__file__).parent / "data" / "Qwen2.5-7B.json").read_text())["config"])
L20_OFFER = Offer("L20", 44.99, 48, (8, 9))
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
    "NVIDIA-A10G": "A10G",
    "NVIDIA-A800-40GB-Active": "A800-40G",
    "NVIDIA-H100-NVL": "H100-NVL",
    "NVIDIA-H20-3e": "H20-3e",
    "NVIDIA-B200": "B200",
    "NVIDIA-GB200": "GB200",
    "NVIDIA-B300-SXM6-AC": "B300",
    "NVIDIA-GB300": "GB300",
    "NVIDIA-GB300-WS": None,
    "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition": "RTX-PRO-6000",
    "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition": "RTX-PRO-6000",
    "NVIDIA-A100-SXM4-80GB-SHARED": "A100-80G",
    "nvidia.com/gpu.product=NVIDIA-L20": "L20",
    # Parts of a card are never the card.
    "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb": "A100-80G-MIG-1g.10gb",
    "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED": "A100-80G-MIG-1g.10gb",
    "NVIDIA A100-SXM4-80GB MIG 3g.40gb": "A100-80G-MIG-3g.40gb",
    "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me": "H100-MIG-1g.10gb.me",
    "NVIDIA-A100-SXM4-80GB-MIG-1c.3g.40gb": None,
    "NVIDIA A100-SXM4-80GB MIG": None,
    "NVIDIA-A10-4Q": None,
    "GRID-A100-10C": None,
    "NVIDIA-GeForce-RTX-4090-Laptop-GPU": None,
    "nvidia.com/mig-1g.5gb": "MIG-1g.5gb",
    "2g.20gb": "MIG-2g.20gb",
    "Radeon-RX": None,
}
SLICES = [  # name, GiB that the driver reports at least, capability
    ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 9.5, (8, 0)),
    ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 4.75, (8, 0)),
    ("NVIDIA-H200-MIG-1g.18gb", 16.0, (9, 0)),
    ("NVIDIA-B200-MIG-1g.23gb", 20.5, (10, 0)),
    ("nvidia.com/mig-3g.71gb", 69.5, (8, 0)),
    ("nvidia.com/mig-1g.32gb", 26.67, (8, 0)),
]


@every_case("label, name", LABELS.items())
def test_a_node_label_leads_to_its_card(label, name):
    """Labels as the device plugin's feature discovery writes them."""
    found = gpus.find(label)
    assert (found.name if found else None) == name


@every_case("card", gpus.GPUS.values(), ids=gpus.GPUS.keys())
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


@pytest.mark.parametrize(("name", "gib", "capability"), SLICES)
def test_a_slice_is_a_small_card_of_its_own(name, gib, capability):
    """Its memory is what its profile says, its capability the card's, and ranks cannot be spread over several."""
    found = gpus.find(name)
    assert (round(found.real_gib, 2), found.capability, found.alone) == (gib, capability, True)
    assert gpus.find(found.name) == found


@pytest.mark.parametrize("name", ["A100", "A100-80G", "NVIDIA-A100-SXM4-80GB", "1g.5gb", "nvidia.com/mig-2g.10gb"])
def test_no_other_name_matches_a_slice(name):
    """A card, its family, its label and other profiles are not this slice."""
    assert not gpus.matches(name, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb")


@pytest.mark.parametrize("name", ["1g.10gb", "mig-1g.10gb", "nvidia.com/mig-1g.10gb", "a100-80g-mig-1g.10gb"])
def test_a_slice_matches_by_resource_and_name(name):
    """By the resource, the profile and the short name with its card."""
    assert gpus.matches(name, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb")


@pytest.mark.parametrize(
    ("text", "names"),
    [("A100", ["A100-40G", "A100-80G"]), ("v100", ["V100-16G", "V100-32G"]), ("NVIDIA-L20", ["L20"]), ("Z9", [])],
)
def test_a_name_means_each_card_of_its_family(text, names):
    """And what a name means is what a node is matched by."""
    assert [gpu.name for gpu in gpus.named(text)] == names
    assert all(gpus.matches(text, name) for name in names) or text == "NVIDIA-L20"


def test_a_familys_name_is_no_other_cards():
    """So that a short name means the same card wherever it stands."""
    for gpu in gpus.GPUS.values():
        assert gpu.family not in gpus.GPUS or gpu.family == gpu.name


@pytest.mark.parametrize(
    ("text", "maker"),
    [
        ("MI300X", "AMD"),
        ("AMD_Instinct_MI325X_OAM", "AMD"),
        ("amd.com/gpu", "AMD"),
        ("Gaudi3", "Intel"),
        ("Ascend-910B", "Huawei"),
        ("ascend910b", "Huawei"),
        ("TPU", "Google"),
    ],
)
def test_accelerators_of_other_makers_are_refused_by_name(text, maker):
    """With one sentence that says whose it is."""
    assert gpus.refusal(text).startswith(f'"{text}" is an accelerator of {maker}, ')
    assert gpus.find(text) is None


def test_no_card_of_ours_is_refused():
    """Short names, families and labels."""
    assert not any(gpus.refusal(name) for name in (*gpus.GPUS, *LABELS) if name != "Radeon-RX")


def test_the_docs_list_every_card():
    """The table of the reference is these rows."""
    page = (Path(__file__).parents[3] / "docs" / "reference" / "sizing.md").read_text()
    for gpu in gpus.GPUS.values():
        names = f"`{gpu.name}`" + "".join(f", `{alias}`" for alias in gpu.aliases)
        family = f"`{gpu.family}`" if gpu.family != gpu.name else ""
        capability = ".".join(map(str, gpu.capability))
        assert f"| {names} | {family} | {gpu.memory_gib} | {gpu.memory_mib:,} | {capability} |" in page


def test_a_slice_is_advised_no_second_one():
    """Slices exchange nothing: only a larger one helps."""
    card = Offer("X", 9.5, 10, (8, 0), alone=True)
    assert advise(FACTS, Serving(8192), card)[0].startswith("a larger slice or a whole GPU: at least")


def test_advice_comes_in_the_documents_order_with_figures():
    """More GPUs, ifq, less context, utilization 0.95, eager."""
    lines = advise(FACTS, Serving(8192), Offer("X", 16, 16, (8, 6)))
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
    assert len(advise(FACTS, tight, Offer("X", 16, 16))) == 1
    assert not any("ifq" in line for line in advise(FACTS, Serving(8192), Offer("X", 16, 16, (6, 1))))


def test_an_advice_changes_the_figure_that_it_shows():
    """A model of 8 million parameters is no smaller in another method, by two places."""
    tiny = dataclasses.replace(FACTS, params=8_000_000, embedding_params=1_000_000, hidden_size=256)
    for line in advise(tiny, Serving(2048), Offer("X", 0.5, 0.5, (8, 6))):
        found = re.search(r"(\S+) instead of (\S+) GiB", line)
        assert found is None or found[1] != found[2], line


GAINS = {
    "much is free": (Serving(8192), L20_OFFER, ()),
    "few fit at once": (
        Serving(8192),
        Offer("X", 20, 20, (8, 6)),
        (
            "more or larger GPUs: 2 of these hold",
            "engine.quantization ifq: ",
            "engine.maxModelLen 2048: ",
            "engine.gpuMemoryUtilizationPercent 95: ",
            "engine.enforceEager true: ",
        ),
    ),
    "a GPU is saved": (
        Serving(8192, tp=2),
        Offer("X", 15, 16, (8, 6)),
        ("engine.quantization ifq: fits 1 GPU instead of 2",),
    ),
    "more GPUs than are needed": (Serving(8192, tp=4), L20_OFFER, ()),
    "unknown memory": (Serving(8192), dataclasses.replace(L20_OFFER, real_gib=None), ()),
}


@pytest.mark.parametrize(("serving", "card", "starts"), GAINS.values(), ids=GAINS.keys())
def test_a_plan_that_fits_is_advised_gains_alone(serving, card, starts):
    """Fewer GPUs, or room where few requests of the whole context fit."""
    lines = gains(FACTS, serving, card)
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == list(starts), lines


def test_gpus_that_bring_no_room_are_known():
    """One card holds every request of a step; a larger model takes the room of the second."""
    tiny = dataclasses.replace(FACTS, params=8_000_000, embedding_params=1_000_000, hidden_size=256, head_dim=8)
    assert [one_gpu_suffices(facts, Serving(2048, tp=tp), L20_OFFER) for facts, tp in (
        (tiny, 4), (tiny, 1), (FACTS, 4),
    )] == [True, False, False]  # fmt: skip
