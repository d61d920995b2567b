"""docs/reference/kubectl-windlass.md is printed from the parser; WINDLASS_GOLDEN=write rewrites it."""

from __future__ import annotations

import os
from pathlib import Path

from windlass_operator.kubectl.reference import page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "kubectl-windlass.md"


def test_the_page_is_what_help_says():
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page())
    assert PAGE.read_text() == page()
