"""Random and hostile LLMServices: valid by the CRD's own schema, and with junk where a schema does not look.

Drawn from the schema, so that a new field is drawn the day it is added. `fuzz` gives them to an API server with the
operator at work and tells what the operator did.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from fault_bed import Bed
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from windlass_operator import metrics

CRD_FILE = Path(__file__).parents[2] / "crds" / "llmservices.serving.windlass.dev.yaml"
HOSTILE = (
    "..", "/", "\x00", "'; DROP TABLE pods; --", "$(reboot)", "{{ .Values }}", "-", "0", "true", "null", "~", "a" * 300,
    "ünï©ödé", "\u202e", "*", "&x", "!!python/object", "../../etc/passwd", "http://[::1]:99999/", "--flag", "a\nb", "",
)  # fmt: skip
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.sampled_from(HOSTILE) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(HOSTILE[:12]), inner, max_size=3),
    max_leaves=8,
)
Schema = Mapping[str, Any]


def spec_schema() -> Schema:
    """The schema of `spec`."""
    crd = yaml.safe_load(CRD_FILE.read_text())
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def values(schema: Schema, depth: int = 0) -> st.SearchStrategy[Any]:
    """What the schema allows, hostile texts among it, and now and then junk in its place."""
    if "enum" in schema:
        drawn: st.SearchStrategy[Any] = st.sampled_from(schema["enum"])
    elif schema.get("x-kubernetes-preserve-unknown-fields"):
        drawn = st.dictionaries(st.sampled_from(POD_WORDS), JUNK, max_size=3)
    elif schema.get("x-kubernetes-int-or-string"):
        drawn = st.sampled_from((1, "1", "1Gi", "100m", "0", "9999999Ei", "0.5"))
    else:
        drawn = TYPES[schema.get("type", "object")](schema, depth)
    return drawn if depth < 2 else st.integers(0, 200).flatmap(lambda dice: JUNK if dice == 0 else drawn)


def _object(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    rows = schema.get("properties")
    if not rows:
        return st.dictionaries(st.sampled_from(("a", "b.c/d", "x" * 70)), st.sampled_from(HOSTILE), max_size=2)
    required = {key: values(rows[key], depth + 1) for key in schema.get("required", ())}
    others = {key: values(row, depth + 1) for key, row in rows.items() if key not in required}
    return st.fixed_dictionaries(required, optional=others) if depth else _sparse(required, others)


def _sparse(required: Mapping[str, Any], others: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """A few of the optional parts: with all of them nearly every service is refused by the first rule it breaks."""
    few = st.lists(st.sampled_from(sorted(others)), max_size=3, unique=True)
    return few.flatmap(lambda names: st.fixed_dictionaries({**required, **{name: others[name] for name in names}}))


def _string(schema: Schema, _depth: int) -> st.SearchStrategy[Any]:
    longest = min(int(schema.get("maxLength", 40)), 64)
    plain = st.text("abcdefghijklmnopqrstuvwxyz0123456789-./", min_size=schema.get("minLength", 0), max_size=longest)
    if "pattern" in schema:
        short = schema["pattern"].replace("*", "{0,8}")
        plain = st.from_regex(short, fullmatch=True).filter(lambda text: len(text) <= longest) | plain
    hostile = st.sampled_from([text for text in HOSTILE if len(text) <= longest])
    return st.integers(0, 9).flatmap(lambda dice: hostile if dice == 0 else plain)


def _integer(schema: Schema, _depth: int) -> st.SearchStrategy[Any]:
    return st.integers(schema.get("minimum", -(2**31)), schema.get("maximum", 2**31))


def _array(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    low = schema.get("minItems", 0)
    return st.lists(
        values(schema["items"], depth + 1), min_size=low, max_size=max(low, min(schema.get("maxItems", 3), 3))
    )


TYPES = {
    "object": _object, "string": _string, "integer": _integer, "array": _array,
    "boolean": lambda *_: st.booleans(), "number": lambda *_: st.floats(allow_nan=False, allow_infinity=False),
}  # fmt: skip
POD_WORDS = (
    "affinity", "tolerations", "nodeSelector", "containers", "initContainers", "volumes", "hostNetwork",
    "securityContext", "serviceAccountName", "runtimeClassName", "schedulerName", "dnsConfig", "hostAliases",
    "junk", "", "$ref",
)  # fmt: skip


def specs() -> st.SearchStrategy[dict[str, Any]]:
    """Specs with exactly one source most of the time: that is the rule which would refuse nearly all."""
    schema = spec_schema()
    kinds = schema["properties"]["model"]["properties"]["source"]["properties"]

    models = schema["properties"]["model"]["properties"]
    parts = {name: values(models[name], 2) for name in ("download", "adapters")}

    def with_model(spec: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
        one = st.sampled_from(sorted(kinds)).flatmap(lambda kind: values(kinds[kind], 3).map(lambda row: {kind: row}))
        plain = st.fixed_dictionaries({"id": st.sampled_from(("demo", "Qwen/Qwen2-7B")), "source": one})
        more = st.fixed_dictionaries({"id": values(models["id"], 2), "source": one}, optional=parts)
        return st.one_of(plain, plain, more).map(lambda model: {**spec, "model": model})

    drawn = values(schema)
    return st.one_of(drawn, *[drawn.flatmap(with_model)] * 5)


@dataclass(frozen=True)
class Told:
    """What became of the specs."""

    tried: int
    accepted: int
    unlooked: tuple[str, ...]  # accepted, and never given a condition
    errors: float  # runs of the operator that ended with an exception
    writes_per_service: float
    late_writes: float  # after everything had settled


def fuzz(bed: Bed, count: int, seed_: int, settle_s: float = 20) -> Told:
    """Apply `count` drawn specs in batches, let the operator look at each, and count what it does."""
    before, errors = written(), failed()
    accepted, unlooked, tried = 0, [], 0
    for batch in _batches(list(_draw(count, seed_)), 50):
        names = {f"h-{tried + index}": spec for index, spec in enumerate(batch)}
        tried += len(batch)
        taken = _apply(bed, names)
        accepted += len(taken)
        unlooked += _wait_for_conditions(bed, taken, settle_s)
        last = written()
        time.sleep(3)
        late = written() - last
        bed.kubectl("-n", bed.namespace, "delete", "llm", "--all", "--wait=true", "--timeout=120s")
    return Told(tried, accepted, tuple(unlooked), failed() - errors, (written() - before) / max(1, accepted), late)


def _draw(count: int, seed_: int) -> Iterator[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    @seed(seed_)
    @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(specs())
    def take(spec: dict[str, Any]) -> None:
        rows.append(spec)

    take()
    return iter(rows[:count])


def _batches(rows: list[Any], size: int) -> Iterator[list[Any]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _apply(bed: Bed, named: Mapping[str, Any]) -> list[str]:
    """The names that the API server took; a refusal of one says nothing about the others."""
    items = [
        {"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService", "metadata": {"name": name}, "spec": spec}
        for name, spec in named.items()
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    with suppress(AssertionError):  # some are refused; the listing tells which are there
        bed.kubectl("-n", bed.namespace, "create", "--validate=false", "-f", "-", stdin=text)
    there = bed.get("llm")["items"]
    return [row["metadata"]["name"] for row in there if row["metadata"]["name"] in named]


def _wait_for_conditions(bed: Bed, names: list[str], patience_s: float) -> list[str]:
    deadline = time.monotonic() + patience_s
    while True:
        rows = {row["metadata"]["name"]: row.get("status", {}) for row in bed.get("llm")["items"]}
        silent = [name for name in names if not rows.get(name, {}).get("conditions")]
        if not silent or time.monotonic() > deadline:
            return silent
        time.sleep(0.5)


def written() -> float:
    """Requests of the operator that wrote, so far."""
    return _total(metrics.WRITES)


def failed() -> float:
    """Runs that ended with an exception, so far."""
    return _total(metrics.RECONCILE_ERRORS)


def _total(counter: Any) -> float:
    samples = [sample for family in counter.collect() for sample in family.samples]
    return float(sum(sample.value for sample in samples if sample.name.endswith("_total")))
