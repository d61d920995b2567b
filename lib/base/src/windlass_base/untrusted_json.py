"""JSON that somebody else wrote: answers of hubs and servers, last words of containers, annotations. Pure.

`json_of` raises on what is no JSON or too deep; `parsed` makes None of it. A parser that follows nesting by recursion
ends in a RecursionError, and a list of empty objects takes 24 times its own size in memory.
"""

from __future__ import annotations

import json
from typing import Any

DEPTH_MAX = 64  # containers inside each other; a CustomResourceDefinition's schema, the deepest we read, has about 40
SEPARATORS = (b",", b"[", b"{")  # each value but the first follows one


class UnusableJsonError(ValueError):
    """The text is no JSON, or is JSON beyond the bounds; the message says which."""


def json_of(text: bytes | str, values_max: int = 0, depth_max: int = DEPTH_MAX) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text; `values_max` 0 leaves the number of values to the caller's limit of bytes."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if values_max and sum(data.count(mark) for mark in SEPARATORS) > values_max:
        raise UnusableJsonError(f"more than {values_max} values")
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise UnusableJsonError(f"nested deeper than {depth_max}") from error
    except ValueError as error:
        raise UnusableJsonError("not JSON") from error
    if not _within(value, depth_max):
        raise UnusableJsonError(f"nested deeper than {depth_max}")
    return value


def _within(value: object, depth_max: int) -> bool:
    """Whether no container lies deeper; a loop over levels, so that depth itself costs no stack."""
    level = [value]
    for _ in range(depth_max + 1):
        level = [inner for one in level for inner in _inside(one) if isinstance(inner, dict | list)]
        if not level:
            return True
    return False


def _inside(value: object) -> Any:  # noqa: ANN401 - values of any JSON type
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


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
