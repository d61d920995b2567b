"""Random specs with depth, huge numbers, long texts, wide lists and unknown fields, as JSON text.

Text, not values: a thousand levels are more than Python's own encoder nests.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

from admission_draws import CLAIM, SUB_PATH, annotations, piece
from windlass_api.crd import schema

Spec = dict[str, Any]
MARK = "@@"  # a text that is replaced by something that is no text
NUMBERS = (
    *("-1", "0", "2147483648", "-2147483649", "9007199254740993", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775809", "18446744073709551616", "1e30", "1e400", "-0", "0.5", "1E-400", "9" * 400),
)
DEPTHS = (3, 40, 300, 985, 3000, 9000)
LONG = (1025, 20_000, 70_000, 400_000)
# Few: the API server is slow at complaints about types, in any resource.
WIDE = (65, 1000, 2000)
TEXTS = ("", "\x00", "a\nb", "..", "/", "$(A)", "\u2028", "ünï", "'; --", "{{ . }}", "null", "-", "a" * 64, "a" * 254)
KEYS = ("a", "", "a" * 318, "a/b/c", "x" * 20_000, "\n", "serving.windlass.dev/service", "__proto__")


def spec_schema() -> dict[str, Any]:
    """The schema of `spec` in the code under test."""
    version = schema.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: dict[str, Any] = version["properties"]["spec"]
    return found


def places(node: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every place of the schema; a list's first row is `0`."""
    for name, child in node.get("properties", {}).items():
        yield (*path, name)
        yield from places(child, (*path, name))
    if isinstance(node.get("items"), Mapping):
        yield (*path, "0")
        yield from places(node["items"], (*path, "0"))


def draw(rng: random.Random, spots: list[tuple[str, ...]]) -> str:
    """One spec as JSON text: a right one, hurt at one to three places."""
    spec: Spec = {"model": {"id": "m", "source": {"pvc": {"claimName": CLAIM, "path": SUB_PATH}}}}
    kind = rng.choice(("overlay", "annotations", "hurt", "hurt", "hurt", "hurt", "deep"))
    if kind == "overlay":
        spec["podTemplate"] = {"spec": piece(rng)}
    elif kind == "annotations":
        spec["expose"] = {"ingress": {"host": "a.example", "annotations": annotations(rng)}}
    elif kind == "deep":
        below = rng.choice(("affinity", "containers", "volumes", "dnsConfig", "unknown"))
        spec["podTemplate"] = {"spec": {below: _deep(rng)}}
    for _ in range(rng.choice((1, 1, 2, 3)) if kind == "hurt" else rng.choice((0, 0, 1))):
        _put(spec, rng.choice(spots), _wild(rng))
    return _text(spec)


def _put(spec: Spec, path: tuple[str, ...], value: Any) -> None:
    here: Any = spec
    for step, following in zip(path, (*path[1:], ""), strict=True):
        if isinstance(here, list):
            here[:] = here or [{}]
            index: Any = 0
        elif isinstance(here, dict):
            index = step
        else:
            return
        if following == "":
            here[index] = value
            return
        below = here.get(index) if isinstance(here, dict) else here[index]
        if not isinstance(below, dict | list):
            below = [] if following == "0" else {}
            here[index] = below
        here = below


def _wild(rng: random.Random) -> Any:
    way = rng.choice(("number", "number", "text", "long", "wide", "deep", "map", "unknown", "null", "flag"))
    if way == "number":
        return f"{MARK}{rng.choice(NUMBERS)}{MARK}"
    if way == "long":
        return rng.choice(("a", "/", "ü", "\n")) * rng.choice(LONG)
    if way == "wide":
        return [rng.choice(("a", "", {"name": "a"}, 1))] * rng.choice(WIDE)
    if way == "deep":
        return _deep(rng)
    if way == "map":
        return {f"{rng.choice(KEYS)}{index}": rng.choice(TEXTS) for index in range(rng.choice((1, 33, 500)))}
    plain = {"text": rng.choice(TEXTS), "unknown": {"unknown": {"a": [1]}}, "null": None, "flag": True}
    return copy.deepcopy(plain[way])


def _deep(rng: random.Random) -> str:
    """Objects or lists inside each other."""
    return f"{MARK}{rng.choice('ol')}{rng.choice(DEPTHS)}{MARK}"


def _text(spec: Spec) -> str:
    text = json.dumps(spec)
    parts = text.split(f'"{MARK}')
    return parts[0] + "".join(_marked(part) for part in parts[1:])


def _marked(part: str) -> str:
    word, _, rest = part.partition(f'{MARK}"')
    return nested(word[0], int(word[1:])) + rest if word[0] in "ol" else word + rest


def nested(kind: str, depth: int) -> str:
    """JSON text of so many objects (`o`) or lists (`l`) inside each other."""
    opened, closed = ('{"nodeAffinity":', "}") if kind == "o" else ("[", "]")
    return opened * depth + ("{}" if kind == "o" else "") + closed * depth


def depth_of(text: str) -> int:
    """How deep JSON text nests, without decoding it."""
    deepest = level = 0
    quoted = escaped = False
    for char in text:
        if quoted:
            quoted, escaped = (char != '"' or escaped), (char == "\\" and not escaped)
        elif char == '"':
            quoted = True
        elif char in "{[":
            level += 1
            deepest = max(deepest, level)
        elif char in "}]":
            level -= 1
    return deepest


def characters(value: Any) -> int:
    """All texts and keys of a value."""
    if isinstance(value, Mapping):
        return sum(len(str(key)) + characters(below) for key, below in value.items())
    if isinstance(value, list):
        return sum(map(characters, value))
    return len(value) if isinstance(value, str) else 0
