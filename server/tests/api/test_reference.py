"""The reference page holds the table of today, and every route and variable that it promises."""

import subprocess
import sys
from pathlib import Path

from windlass.api import fields, reference
from windlass.front.settings import KEYS_VARIABLE, SETTINGS_VARIABLE

PAGE = Path(__file__).parents[3] / "docs/reference/api.md"


def test_the_table_of_fields_is_current() -> None:
    """Made anew by `python -m windlass.api.reference docs/reference/api.md`."""
    page = PAGE.read_text()
    assert reference.BEGIN in page
    assert page == reference.filled(page)


def test_the_page_names_what_the_guard_answers() -> None:
    """Routes, variables and statuses."""
    page = PAGE.read_text()
    named = [
        "/windlass/facts",
        "/windlass/metrics",
        "/chat",
        "/health",
        KEYS_VARIABLE,
        SETTINGS_VARIABLE,
        "429",
        "413",
        "503",
    ]
    assert [word for word in named if word not in page] == []
    assert all(f"`{field.name}`" in reference.table() for field in fields.FIELDS)


def test_the_guard_needs_no_web_framework() -> None:
    """The launcher and these tests import it where no engine is installed."""
    check = (
        "import sys, windlass.api.guard; sys.exit(bool({'starlette', 'fastapi', 'vllm', 'httpx'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
