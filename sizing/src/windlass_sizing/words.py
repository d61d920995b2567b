"""Sentences about a plan that `windlass plan`, the operator's status and the demo print alike. Pure."""

from __future__ import annotations


def quick_formula(seed_gib: float) -> str:
    """The published formula as what it is: a check beside the one total, which is our figure."""
    return (
        f"the published quick formula, (weights + KV cache of one context) / utilization, gives {seed_gib:.2f} GiB; "
        "it is a check and counts no engine"
    )


def at_once(requests: int, max_model_len: int) -> str:
    """How many requests the KV cache holds."""
    noun = "request" if requests == 1 else "requests"
    return f"{requests} {noun} of {max_model_len} tokens fit in the KV cache at once (an estimate)"
