"""What each quantization method costs and needs, as rows.

`nominal_bytes` is the quick formula's figure, `real_bytes` ours with scales; None means the weights stay as stored.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Method:
    """One quantization method."""

    nominal_bytes: float | None
    real_bytes: float | None
    min_capability: tuple[int, int] = (0, 0)
    online: bool = True  # quantizes plain weights while loading
    dtypes: tuple[str, ...] = ()  # the only number formats it runs with; empty: any
    head_bytes: float | None = None  # of an output head that is a matrix of its own; None: it stays as it is
    experts: bool = True  # whether it quantizes mixtures of experts


# Scales, from the kernels' layouts: a float32 for each row of some thousand weights, or for NF4 a float16 for each 64.
ROW_SCALE = 4 / 4096
NF4_SCALE = 2 / 64
BITSANDBYTES_SCALE = 4 / 64  # a float32 for each 64

METHODS: dict[str, Method] = {
    "none": Method(None, None),
    "fp8": Method(1, 1 + ROW_SCALE, (8, 9), head_bytes=1 + ROW_SCALE),
    "ifq": Method(1, 1 + ROW_SCALE, (7, 0), head_bytes=1 + ROW_SCALE, experts=False),
    "ifq_nf4": Method(0.5, 0.5 + NF4_SCALE, (8, 0), dtypes=("float16",), head_bytes=1 + ROW_SCALE, experts=False),
    "smoothquant": Method(1, 1 + ROW_SCALE, (7, 5), experts=False),
    "auto": Method(1, 1 + ROW_SCALE, (0, 0), head_bytes=1 + ROW_SCALE, experts=False),  # ifq or smoothquant
    "bitsandbytes": Method(0.5, 0.5 + BITSANDBYTES_SCALE, (7, 0)),
}


def runs_on(method: str | None, capability: tuple[int, int] | None) -> bool:
    """Whether a card of this compute capability can run the method; an unknown card is given the benefit."""
    row = METHODS.get(method or "none")
    return row is None or capability is None or capability >= row.min_capability


def effective(method: str | None, capability: tuple[int, int] | None) -> str | None:
    """What `auto` comes down to on this card; every other method is itself."""
    if method == "auto" and not runs_on("ifq", capability):
        return "none"
    return method
