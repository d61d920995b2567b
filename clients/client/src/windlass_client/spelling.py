"""Remedies for fields that the API server does not take: the nearest name that the schema has, or the shape. Pure.

The API server says which field it does not know, and never which one it knows. `client.py` asks this of its refusals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from windlass_base.kube.errors import FieldProblem, InvalidError

from windlass_client.schema import json_schema

UNDECLARED = "field not declared in schema"
NO_MAP = re.compile(r"expected map, got &\{(?P<value>.*)\}$")
STRICT = re.compile(r'unknown field "(?P<field>[^"]{1,1024})"')
INDEX = re.compile(r"\[[^]]*\]")
LISTED_MAX = 12  # names of fields in a sentence
MODEL = "spec.model"
FROM_A_HUB = "kubectl windlass create NAME --model hf://OWNER/NAME writes one from a hub's name"


@contextmanager
def remedies() -> Iterator[None]:
    """Raise an InvalidError of the block with its remedies."""
    try:
        yield
    except InvalidError as error:
        raise with_remedies(error) from error


def with_remedies(error: InvalidError) -> InvalidError:
    """The refusal, with what to write in the place of each field that is not known."""
    text, problems = STRICT.sub(lambda found: found[0] + _nearest(found["field"]), str(error)), list[FieldProblem]()
    for problem in error.problems:
        better = replace(problem, message=_message(problem))
        text = text.replace(f"{problem.field}: {problem.message}", f"{better.field}: {better.message}")
        problems.append(better)
    return InvalidError(text, tuple(problems))


def _message(problem: FieldProblem) -> str:
    if problem.message == UNDECLARED:
        return f"there is no such field{_nearest(problem.field)}"
    found = NO_MAP.search(problem.message)
    names = _fields(problem.field)
    if found is None or not names:
        return problem.message
    hub = f"; {FROM_A_HUB}" if problem.field == MODEL else ""
    return f"takes fields of its own, not {found['value']}: {_listed(names, problem.field)}{hub}"


def _nearest(field: str) -> str:
    """The end of a sentence about a field that is not known; empty where nothing is known beside it either."""
    parent, _, name = INDEX.sub("", field).rpartition(".")
    names = _fields(parent)
    lower = {one.lower(): one for one in names}
    near = get_close_matches(name.lower(), lower, n=1)
    if near:
        return f"; did you mean {lower[near[0]]}?"
    return f"; {parent} has {_listed(names, parent)}" if names else ""


def _listed(names: tuple[str, ...], field: str) -> str:
    if len(names) <= LISTED_MAX:
        return ", ".join(names)
    return f"{', '.join(names[:LISTED_MAX])} and more (kubectl explain llmservice.{field})"


def _fields(path: str) -> tuple[str, ...]:
    """The names below a field of the resource."""
    node: Mapping[str, Any] = json_schema()
    for name in INDEX.sub("", path).split("."):
        node = (node.get("properties") or {}).get(name) or {}
        node = node.get("items") or node
    return tuple(node.get("properties") or ())
