"""A preview says how fast its plan would be, where the planned card was measured."""

from __future__ import annotations

from windlass_api.plan.model import Inventory, NodeGpus
from windlass_client.preview import decided

from .test_in_force import L20, QWEN_7B, a_spec

H200 = NodeGpus("worker-3", "NVIDIA-H200", 140.4, 8, 8)


def predicted(card: NodeGpus, **engine: object) -> dict:
    return decided(a_spec(engine=engine), QWEN_7B, Inventory((card,))).to_dict()["prediction"]


def test_a_measured_card_has_figures():
    """Three loads, as a step of 10 requests holds more than one of 1."""
    found = predicted(H200)
    assert [row["requestsAtOnce"] for row in found["loads"]] == [1, 10, 64]
    assert found["loads"][0]["msPerToken"] < found["loads"][1]["msPerToken"] < found["loads"][2]["msPerToken"]
    assert found["note"].startswith("predicted, not measured")


def test_what_was_not_measured_has_a_reason():
    """Other cards, drafted tokens, no graphs."""
    assert predicted(L20)["note"].startswith("no prediction for L20")
    assert "drafted tokens" in predicted(H200, lookahead={"enabled": True})["note"]
    assert "CUDA graphs" in predicted(H200, enforceEager=True)["note"]
