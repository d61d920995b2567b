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


METHODS: dict[str, Method] = {
    "none": Method(None, None),
    "fp8": Method(1, 1, (8, 9)),
    "ifq": Method(1, 1.016, (7, 0)),  # a float16 scale for each group of 128
    "ifq_nf4": Method(0.5, 0.532, (8, 0), dtypes=("float16",)),  # a float16 absmax for each 64
    "smoothquant": Method(1, 1.01, (7, 5)),
    "auto": Method(1, 1.016, (0, 0)),  # ifq or smoothquant; decide() counts it as none where ifq cannot run
    "bitsandbytes": Method(0.5, 0.532, (7, 0)),
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
