"""The table of request fields in the reference page: `python -m windlass.api.reference docs/reference/api.md`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from windlass.api.fields import FIELDS, Field

BEGIN, END = "<!-- fields: generated -->", "<!-- end of fields -->"
HEAD = "| field | type | range | default | meaning |\n| --- | --- | --- | --- | --- |\n"


def table() -> str:
    """The table in Markdown."""
    return HEAD + "".join(_row(field) for field in FIELDS)


def filled(page: str) -> str:
    """The page with the table of today between its two marks."""
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{table()}{END}", page, flags=re.DOTALL)


def _row(field: Field) -> str:
    default = field.otherwise if field.default is None else f"{field.default:g}"
    return f"| `{field.name}` | {field.kind.value} | {field.interval} | {default} | {field.meaning} |\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
