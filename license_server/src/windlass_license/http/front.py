"""What a request to the license server may take; `windlass_base.front` holds the connection to it."""

from __future__ import annotations

import math

from windlass_base.front.peers import Allowance, AllowanceOf, FrontLimits

UPLOAD = b"/ls"


def allowances(limits: FrontLimits) -> AllowanceOf:
    """A license file is larger and slower than every other body; `upload` counts its bytes."""
    plain = Allowance(limits.body_bytes, limits.body_s, limits.answer_s)
    file = Allowance(math.inf, limits.upload_s, limits.answer_s)
    return lambda path: file if path == UPLOAD else plain
