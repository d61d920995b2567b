"""Kubernetes quantities: of bytes as GiB, of processors as cores. Pure."""

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
    return _amount(quantity, "no quantity of bytes; write it as 8Gi") / GIB


def cores(quantity: str) -> float:
    """A Kubernetes quantity of processors, in cores."""
    return _amount(quantity, "no quantity of processors; write it as 500m or 4")


def _amount(quantity: str, otherwise: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)", quantity)
    if found is None or found[2] not in UNITS:
        raise ValueError(f"{quantity} is {otherwise}")
    return float(found[1]) * UNITS[found[2]]
