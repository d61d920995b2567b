"""Hourly usage at the facts port."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import parse_qs

from windlass.front.usage.hours import records

PATH = "/windlass/usage"
VERSION = 1
JSON = "application/json"
WHOLE_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d")


def answer(root: Path | None, query: str) -> tuple[int, str, str]:
    """HTTP status, content type and body; `from` and `to` are the first and last hour, as 2026-11-25T12 in UTC."""
    fields = parse_qs(query)
    first, last = (fields.get(name, [""])[0] for name in ("from", "to"))
    if any(one and not WHOLE_HOUR.fullmatch(one) for one in (first, last)):
        return 400, JSON, json.dumps({"message": "from and to are whole hours in UTC, as 2026-11-25T12"})
    if root is None:
        return 404, JSON, json.dumps({"message": "usage is not recorded here; set WINDLASS_USAGE_DIR to a directory"})
    try:
        rows = list(records(root, first, last))
    except (OSError, ValueError, LookupError, TypeError) as error:
        return 500, JSON, json.dumps({"message": f"the records of usage cannot be read: {error}"})
    return 200, JSON, json.dumps({"version": VERSION, "records": rows})
