"""Counts as nodes and pods spell them: a thousand cards are `1k`, and nothing ends the operator."""

from __future__ import annotations

import pytest
from windlass_api.objects.claims import claim_of
from windlass_api.objects.inventory import CARDS_MAX, gpu_signature
from windlass_api.objects.quantity import COUNT_MAX, whole
from windlass_testbed.cases import every_case


@every_case(
    "quantity, count",
    [
        *((8, 8), ("8", 8), ("1k", 1000), ("2Ki", 2048), ("3e2", 300), ("1.5", 1), (None, 0), ("", 0), ("x", 0)),
        *(("9E", COUNT_MAX), ("-1", 0), ("9" * 5000, 0), ([], 0), ("500m", 0)),
    ],
)
def test_a_count_is_read_or_is_none(quantity, count):
    assert whole(quantity) == count


@pytest.mark.parametrize("gpus", ["1k", "9E", "x"])
def test_odd_cards_of_anybody_are_counted(gpus):
    limits = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
    pod = {"metadata": {"namespace": "a", "name": "p"}, "spec": {"nodeName": "n", "containers": [limits]}}
    held = claim_of(pod)
    assert (sum(count for _, count in held.gpus) if held else 0) == whole(gpus)
    assert gpu_signature({"status": {"allocatable": {"nvidia.com/gpu": gpus}}})[0] == (
        ("nvidia.com/gpu", min(whole(gpus), CARDS_MAX)),
    )
