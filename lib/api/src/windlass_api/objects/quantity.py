"""Kubernetes' spellings of a count: `8`, `"8"`, and `"1k"` for a thousand; anybody's nodes and pods hold them. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

COUNT_MAX = 10**9
SUFFIXES = ("", "k", "M", "G", "T", "P", "E")
SPELLING = re.compile(r"([0-9]{1,30})(?:\.[0-9]+)?(?:e([0-9]{1,2}))?([kKMGTPE]?)(i?)")


def whole(quantity: object) -> int:
    """The count, cut to what a cluster can have; 0 for what is none."""
    found = SPELLING.fullmatch(str(quantity))
    if found is None:
        return 0
    number, exponent, suffix, binary = found.groups()
    scale = (1024 if binary else 1000) ** SUFFIXES.index(suffix.replace("K", "k"))
    return int(min(Decimal(number).scaleb(int(exponent or 0)) * scale, COUNT_MAX))
