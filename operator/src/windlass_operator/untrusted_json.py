"""JSON that somebody else wrote: last words of containers, answers of pods, annotations that anybody may edit. Pure."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any


def parsed(text: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """The value; None for what is no JSON, or is nested deeper than anything of ours."""
    try:
        return _writable(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _writable(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Half of a surrogate pair, as a file name of no encoding gives it, could not be written to the API server."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_writable(one) for one in value]
    if isinstance(value, dict):
        return {_writable(key): _writable(one) for key, one in value.items()}
    return value


def instant(text: str) -> str:
    """The time if it is one with its zone (RFC 3339); else empty."""
    try:
        return text if datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo else ""
    except ValueError:
        return ""
