"""docs/reference/fields.md says what each field of the spec changes, by family; WINDLASS_GOLDEN=write rewrites it.

Each cell is found by rendering the objects with the field and without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from spec_changes import BASE, CHANGES, INERT, NOT_DEEPSPEED, changed, merged, rendered
from windlass_operator.errors import UserError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fields.md"
VLLM, ON_CPU, DEEPSPEED = "vllm", "vllm on the CPU", "deepspeed"
BASES: dict[str, dict[str, Any]] = {
    VLLM: BASE,
    ON_CPU: merged(BASE, {"resources": {"gpus": 0}}),
    DEEPSPEED: merged(BASE, {"image": {"family": "deepspeed"}}),
}
# Where the table's value is what the service has already.
OTHER = {(ON_CPU, "engine.dtype"): "float32", (DEEPSPEED, "image.family"): "vllm"}
REFUSED = "refused"
AT_ADMISSION = {DEEPSPEED: NOT_DEEPSPEED, ON_CPU: {"resources.gpuType"}}  # by rules that only the API server runs
# Fields of a part that is off there, as the plan says: (family, path) → the cell.
OFF = {(ON_CPU, f"engine.prefixOffload.{name}"): "none: off on the CPU" for name in ("memory", "memoryPercent")}
WORDS = (
    # the end of a path in an object, and how the page calls it
    ("containers.args", "arguments"),
    ("containers.command", "command"),
    ("containers.image", "image"),
    ("containers.env", "variables"),
    ("containers.env.value", "variables"),
    ("containers.env.name", "variables"),
    ("requests.cpu", "CPU"),
    ("requests.memory", "memory"),
    ("nvidia.com/gpu", "GPUs"),
    ("nvidia.com/gpu.product", "node selector"),
    ("spec.replicas", "replicas"),
)
HEAD = """\
# What each field changes

<!-- Found by rendering: WINDLASS_GOLDEN=write pytest tests/contract/test_fields_page.py -->

Each field of [LLMService](llmservice.md)'s spec is changed alone, and the objects that the operator makes are compared.
*Refused*: by the API server or by the plan, in one sentence that names the field. The fields of
`podTemplate.spec` are Kubernetes' own and reach the pod as they are, in every family.

"""


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """The paths of all values that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                yield from differences(before.get(key), after.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            if one != other:
                yield from differences(one, other, path)
    else:
        yield path


def effect(family: str, path: str) -> str:
    """What of the objects the field changes for this family."""
    if path in AT_ADMISSION.get(family, ()):
        return REFUSED
    around, value = CHANGES[path]
    needs = {name: part for name, part in around.items() if name != "resources"} if family == ON_CPU else around
    before = merged(BASES[family], needs)
    try:
        after = rendered(changed(before, path, OTHER.get((family, path), value)))
        return ", ".join(sorted(set(_words(rendered(before), after)))) or OFF.get((family, path), "")
    except (UserError, AssertionError):  # the plan's own refusal
        return REFUSED


def _words(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[str]:
    old, new = ({(one["kind"], one["metadata"]["name"]): one for one in objects} for objects in (before, after))
    for kind, name in {*old, *new}:
        paths = differences(old.get((kind, name)), new.get((kind, name)))
        yield from (_word(kind, path) for path in paths)


def _word(kind: str, path: str) -> str:
    return next((word for end, word in WORDS if path.endswith(end)), kind)


def table() -> str:
    """A row for each field."""
    families = " | ".join(f"{name}" for name in BASES)
    lines = [f"| `spec` field | {families} |", "| --- " * (len(BASES) + 1) + "|"]
    for path in CHANGES:
        cells = " | ".join(effect(family, path) for family in BASES)
        lines.append(f"| `{path.replace('.[]', '[]')}` | {cells} |")
    lines += [f"| `{path}` | {' | '.join([why] * len(BASES))} |" for path, why in INERT.items()]
    return "\n".join(lines) + "\n"


def test_every_field_has_its_effect_in_every_family_or_is_refused() -> None:
    """No cell is empty."""
    empty = {(family, path) for path in CHANGES for family in BASES if not effect(family, path)}
    assert empty == set()


def test_a_part_that_is_off_changes_nothing() -> None:
    """So that no pod is replaced for it."""
    assert {place: effect(*place) for place in OFF} == OFF


def test_the_page_is_what_is_rendered() -> None:
    text = HEAD + table()
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(text)
    assert PAGE.read_text() == text
