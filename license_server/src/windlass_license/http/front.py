"""What a request to the license server may take; `windlass_base.front` holds the connection to it."""

from __future__ import annotations

import math
from dataclasses import replace

from windlass_base.front.peers import Allowance, AllowanceOf, FrontLimits

UPLOAD = b"/ls"
COSTLY = frozenset({b"/ls/view", b"/metrics", b"/openapi.json"})
"""Open to everybody, and their answers are long; no pod asks for them."""
COST = 10.0


def allowances(limits: FrontLimits) -> AllowanceOf:
    """A license file is larger and slower than every other body; `upload` counts its bytes."""
    plain = Allowance(limits.body_bytes, limits.body_s, limits.answer_s)
    costly = replace(plain, cost=COST)
    file = Allowance(math.inf, limits.upload_s, limits.answer_s)

    def allowance(path: bytes) -> Allowance:
        if path == UPLOAD:
            return file
        return costly if path in COSTLY else plain

    return allowance
