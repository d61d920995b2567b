"""Kubernetes quantities of bytes as GiB. Pure."""

from __future__ import annotations

import re

GIB = 1024**3
UNITS = {
    "": 1.0, "m": 1e-3,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 1024.0, "Mi": 1024.0**2, "Gi": 1024.0**3, "Ti": 1024.0**4, "Pi": 1024.0**5, "Ei": 1024.0**6,
}  # fmt: skip


def gib(quantity: str) -> float:
    """A Kubernetes quantity of bytes, in GiB."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)", quantity)
    if found is None or found[2] not in UNITS:
        raise ValueError(f"{quantity} is no quantity of bytes; write it as 8Gi")
    return float(found[1]) * UNITS[found[2]] / GIB
