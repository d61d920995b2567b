"""Specs that break one rule on purpose, and whether the refusal names the field and says what to do.

Rules of the schema are broken at any place that the CRD has; those in CEL by a row each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hostile_mends import NOT_DEEPSPEED
from hostile_specs import Schema, Spec, legal, rules, spec_schema, values
from hypothesis import strategies as st

UNPROCESSABLE = 422
TELLS = re.compile(r"should |must |may not |supported values|Required value|Too (?:long|many)|Duplicate value")
BROKEN_SERVER = re.compile(r"internal error|no such key|no such overload|cost limit|rule compile|runtime error", re.I)
NAMES = ("pvc", "cfs", "nfs", "gooseFSx", "hostPath")
NO_SOURCE = dict.fromkeys(NAMES)
CLAIM = {"claimName": "a", "path": "b"}
EXPORT = {"server": "a", "path": "/"}
SECRET, MAP = {"secretKeyRef": {"name": "a", "key": "k"}}, {"configMapKeyRef": {"name": "a", "key": "k"}}


@dataclass(frozen=True)
class Wrong:
    """What is wrong with a spec: the field that the refusal must name, and words that must be in it."""

    field: str
    words: str

    def to_dict(self) -> dict[str, str]:
        """As JSON."""
        return asdict(self)


def _row(field: str, words: str, patch: Mapping[str, Any]) -> tuple[Wrong, Mapping[str, Any]]:
    return Wrong(field, words), patch


def _model(**parts: Any) -> dict[str, Any]:
    return {"model": parts}


def _adapters(*rows: Mapping[str, Any]) -> dict[str, Any]:
    return {"image": None, **_model(id="demo", adapters=[{"name": "a", "path": "a", **row} for row in rows])}


def _layout(mode: str | None = None, nodes: int | None = None, **more: Any) -> dict[str, Any]:
    plain = {"command": None, "image": None, "resources": None, "engine": None}
    return {**plain, "deployment": {"mode": mode, "nodes": nodes}, **more}


# What a split of prompts does not go with in spec.engine, and a split without any of it.
BESIDE_SPLIT: Mapping[str, Any] = {
    "lookahead": {"lookahead": {"enabled": True}}, "workers": {"workers": 2},
    "speculation": {"speculation": {"source": {**NO_SOURCE, "pvc": CLAIM}}},
    "prefixOffload": {"prefixOffload": {"enabled": True}},
}  # fmt: skip
ALONE_SPLIT: Mapping[str, Any] = {
    **dict.fromkeys(("lookahead", "speculation", "workers", "prefixOffload", "prefixCaching", "schedulerSteps")),
    "sequenceParallelSize": 2,
}

# JSON merge patches over a spec that keeps every rule; None takes a field away.
BREAKS = (
    _row("spec.model.source", "needs exactly one of pvc", _model(source=NO_SOURCE)),
    _row("spec.model.source", "needs exactly one of pvc", _model(source={**NO_SOURCE, "pvc": CLAIM, "nfs": EXPORT})),
    _row("spec.model.source.pvc.path", "must not contain '..'",
         _model(source={**NO_SOURCE, "pvc": {**CLAIM, "path": "a/../.."}})),
    _row("spec.model.source.hostPath.path", "must not contain '..'",
         _model(source={**NO_SOURCE, "hostPath": {"path": "/.."}})),
    _row("spec.model.id", "must begin with a letter or digit", _model(id="-x y")),
    _row("spec.model.download.name", "is OWNER/NAME", _model(download={"hub": "modelscope", "name": "a/b/../c"})),
    _row("spec", "needs a directory of its own",
         _model(download={"hub": "huggingface", "name": "a/b"}, source={**NO_SOURCE, "pvc": {**CLAIM, "path": ""}})),
    _row("spec.model.adapters[0].name", "must begin with a letter or digit", _adapters({"name": "$(x)"})),
    _row("spec.model", "each name may be used once", _adapters({}, {})),
    _row("spec.model", "must not have the model's own id", _adapters({"name": "demo"})),
    _row("spec.model", "only one adapter can be merged", _adapters({"merge": True}, {"name": "b", "merge": True})),
    _row("spec.model.adapters[0]", "give path, the adapter's directory", _adapters({"path": ""})),
    _row("spec.model", "changes the weights that spec.model.adapters were trained on",
         {"image": None, **_model(id="demo", merge=True, adapters=[{"name": "a", "path": "a"}])}),
    _row("spec", "gpuType names a GPU", _layout(resources={"gpus": 0, "gpuType": "L20"})),
    _row("spec.engine", "medusa does not go with lookahead",
         {"image": None, "engine": {"lookahead": {"enabled": True}, "schedulerSteps": None,
                                    "speculation": {"method": "medusa", "source": {**NO_SOURCE, "pvc": CLAIM}}}}),
    _row("spec.engine", "lookahead.speculativeTokens does not go with speculation",
         {"image": None, "engine": {"lookahead": {"enabled": True, "speculativeTokens": 4}, "schedulerSteps": None,
                                    "speculation": {"method": "eagle", "source": {**NO_SOURCE, "pvc": CLAIM}}}}),
    _row("spec.engine.speculation.method", "is not known: use one of",
         {"image": None, "engine": {"lookahead": None, "schedulerSteps": None, "sequenceParallelSize": None,
                                    "speculation": {"method": "hydra", "source": {**NO_SOURCE, "pvc": CLAIM}}}}),
    _row("spec.engine.speculation", "runsOn cpu takes method draft_model",
         {"image": None, "engine": {"lookahead": None, "schedulerSteps": None, "sequenceParallelSize": None,
                                    "speculation": {"method": "eagle", "runsOn": "cpu",
                                                    "source": {**NO_SOURCE, "pvc": CLAIM}}}}),
    _row("spec.engine", "keeps what the prefix cache evicts",
         {"image": None, "engine": {"prefixCaching": False, "prefixOffload": {"enabled": True}}}),
    _row("spec.engine.prefixOffload", "takes memory or memoryPercent",
         {"image": None, "engine": {"prefixCaching": None, "prefixOffload": {"memory": "1Gi", "memoryPercent": 9}}}),
    *(_row("spec.engine", f"sequenceParallelSize does not go with {what}",
           {"command": None, "image": None, "deployment": None, "engine": {**ALONE_SPLIT, **asked}})
      for what, asked in BESIDE_SPLIT.items()),
    _row("spec", "sequenceParallelSize does not go with adapters",
         {**_adapters({"merge": None}), "command": None, "deployment": None, "engine": ALONE_SPLIT}),
    _row("spec", "splits prompts over the GPUs of one node",
         _layout("Distributed", model={"adapters": None}, engine=ALONE_SPLIT)),
    _row("spec.engine.quantization", "is not known; use one of", {"image": None, "engine": {"quantization": "int3"}}),
    _row("spec.engine", "ifq_nf4 runs in float16 only",
         {"image": None, **_model(id="m"), "engine": {"quantization": "ifq_nf4", "dtype": "bfloat16"}}),
    _row("spec.engine", "does not go with schedulerSteps above 1",
         {"image": None, "engine": {"lookahead": {"enabled": True}, "schedulerSteps": 2}}),
    _row("spec.engine", "must be smaller than spec.engine.maxModelLen",
         {"image": None, "engine": {"lookahead": {"speculativeTokens": 8}, "maxModelLen": 8}}),
    _row("spec.engine.allowedMediaDomains[0]", "holds host names, not IP addresses",
         {"image": None, "engine": {"allowedMediaDomains": ["10.0.0.1"]}}),
    _row("spec.expose.path", "begins with / and ends without it", {"image": None, "expose": {"path": "qwen/"}}),
    _row("spec.expose.ingress.host", "a host is a DNS name", {"expose": {"ingress": {"host": "Ünï_x"}}}),
    _row("spec.expose.ingress.annotations", "must not hold an annotation that ends with snippet",
         {"expose": {"ingress": {"host": "a", "annotations": {"x/server-snippet": "y"}}}}),
    _row("spec", "does not go with --enable-chunked-prefill",
         {"image": None, "engine": {"lookahead": {"enabled": True}, "schedulerSteps": None},
          "args": ["--enable-chunked-prefill"]}),
    _row("spec.expose.gateway.parentRefs", "each Gateway may be named once",
         {"expose": {"gateway": {"parentRefs": [{"name": "a"}, {"name": "a", "namespace": ""}]}}}),
    _row("spec.env[0]", "give a variable either value or valueFrom",
         {"env": [{"name": "A", "value": "b", "valueFrom": SECRET}]}),
    _row("spec.env[0]", "needs exactly one of secretKeyRef", {"env": [{"name": "A", "valueFrom": {**SECRET, **MAP}}]}),
    _row("spec", "spreads a replica's GPUs over nodes", _layout("Distributed", resources={"gpus": 1})),
    _row("spec", "Standard uses one node a replica", _layout("Standard", 2)),
    _row("spec", "make it a multiple of the number of nodes", _layout("Auto", 2, resources={"gpus": 3})),
    _row("spec", "must be a multiple of spec.engine.tensorParallelSize",
         _layout(resources={"gpus": 4}, engine={"tensorParallelSize": 3})),
    _row("spec", "needs Windlass's own start command", _layout("Distributed", command=["sh"])),
    _row("spec", "above 1 does not go with", _layout("Distributed", engine={"workers": 2})),
    _row("spec", "already quantized (GPTQ or AWQ)",
         {"image": None, **_model(id="x-GPTQ"), "engine": {"quantization": "ifq"}}),
    _row("spec", "deepspeed has neither",
         _layout(image={"family": "deepspeed"}, engine={"lookahead": {"enabled": True}})),
    *(_row("spec", f"deepspeed does not have spec.engine.{name}",
           _layout(image={"family": "deepspeed"}, engine={name: value})) for name, value in NOT_DEEPSPEED.items()),
    _row("spec", "spec must have at most 131072 characters in all", {"args": ["a" * 16384] * 9}),
    _row("spec.podTemplate.labels", "a key must have at most 317 characters",
         {"podTemplate": {"labels": {"a" * 318: "b"}}}),
    _row("spec.podTemplate.spec.volumes[0]", "a volume must have one kind, not several",
         {"podTemplate": {"spec": {"volumes": [{"name": "a", "emptyDir": {}, "secret": {"secretName": "a"}}]}}}),
    _row("spec.podTemplate.spec.volumes[0]", "the name model must not be used",
         {"podTemplate": {"spec": {"volumes": [{"name": "model", "emptyDir": {}}]}}}),
    _row("spec.scheduling.priorityClassName", "must not begin with system-",
         {"scheduling": {"priorityClassName": "system-node-critical"}}),
    _row("spec", "spec.cache.pvcRef must be another claim than the model's",
         {**_model(source={**NO_SOURCE, "pvc": CLAIM}), "cache": {"pvc": CLAIM["claimName"], "pvcRef": None}}),
    _row("spec", "is read by family vllm",
         _layout(image={"family": "deepspeed"}, expose={"apiKeysSecret": None, "apiKeysSecretRef": {"name": "a"}},
                 model={"adapters": None})),
    _row("spec.expose", "give apiKeysSecretRef alone",
         {"image": None, "expose": {"apiKeysSecret": "a", "apiKeysSecretRef": {"name": "a"}}}),
    _row("spec.expose.ingress", "give tlsSecretRef alone",
         {"image": None, "expose": {"ingress": {"host": "a", "tlsSecret": "a", "tlsSecretRef": {"name": "a"}}}}),
    _row("spec.cache", "give pvcRef alone", {"cache": {"pvc": "other-a", "pvcRef": {"name": "other-b"}}}),
    _row("spec", "deepspeed answers at / alone",
         _layout(image={"family": "deepspeed"}, expose={"path": "/a", "apiKeysSecret": None, "apiKeysSecretRef": None},
                 model={"adapters": None})),
)  # fmt: skip


def wrong(spec: Spec) -> st.SearchStrategy[tuple[Spec, Wrong]]:
    """The spec with one thing wrong."""
    rows = st.sampled_from(BREAKS).map(lambda row: (merged(spec, row[1]), row[0]))
    return rows | bent(spec)


def merged(value: Any, patch: Any) -> Any:
    """JSON merge patch."""
    if not isinstance(patch, Mapping):
        return patch
    out = dict(value) if isinstance(value, Mapping) else {}
    for key, part in patch.items():
        if part is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), part)
    return out


@st.composite
def bent(draw: st.DrawFn, spec: Spec) -> tuple[Spec, Wrong]:
    """The spec with one value that the schema forbids, anywhere."""
    path, schema = draw(st.sampled_from(list(places(spec_schema()))))
    rows = list(forbidden(schema))
    value, suffix, words = draw(st.sampled_from(rows))
    field = "spec" + "".join("[0]" if step == "[]" else f".{step}" for step in path) + suffix
    return _placed(draw, spec_schema(), spec, path, value), Wrong(field, words)


def _placed(draw: st.DrawFn, schema: Schema, there: Any, path: tuple[str, ...], value: Any) -> Any:
    """What is there with the value at the path, and everything that must stand around it."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if step == "[]":
        return [_placed(draw, schema["items"], None, rest, value)]
    below = schema["properties"][step]
    whole = there if isinstance(there, Mapping) else {
        key: draw(values(schema["properties"][key])) for key in schema.get("required", ()) if key != step
    }  # fmt: skip
    return {**whole, step: _placed(draw, below, whole.get(step), rest, value)}


def places(schema: Schema, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Every place below whose value can be forbidden."""
    if path and any(True for _ in forbidden(schema)):
        yield path, schema
    for key, row in schema.get("properties", {}).items():
        yield from places(row, (*path, key))
    if "items" in schema:
        yield from places(schema["items"], (*path, "[]"))


def forbidden(schema: Schema) -> Iterator[tuple[Any, str, str]]:
    """Values that the schema forbids, what follows the field's name in the refusal, and words of it."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        yield "1 Gi", "", "should match"
        yield True, "", "must be of type integer,string"
        return
    other = {"string": 5, "array": {}, "object": [], "boolean": "true", "integer": 1.5}[str(kind)]
    yield other, "", f"must be of type {kind}"
    if kind == "object":
        yield from (({}, f".{key}", "Required value") for key in schema.get("required", ())[:1])
    if "maxItems" in schema and "properties" not in schema["items"]:
        yield ["/a"] * (schema["maxItems"] + 1), "", "Too many"
    if "enum" in schema:
        yield "no-such", "", "supported values"
    if "minimum" in schema:
        yield schema["minimum"] - 1, "", "should be greater than or equal to"
        yield schema["maximum"] + 1, "", "should be less than or equal to"
    if "maxLength" in schema:
        yield "/" * (schema["maxLength"] + 1), "", "Too long"
    if schema.get("minLength"):
        yield "", "", "should be at least"
    if "pattern" in schema and not rules(schema) and not legal(schema, " "):
        yield " ", "", "should match"


def judged(code: int, body: Mapping[str, Any], told: Wrong | None) -> str:
    """What is wrong with the refusal itself; empty when it names the field and says what to do."""
    text = str(body.get("message") or "")
    if code != UNPROCESSABLE or BROKEN_SERVER.search(text):
        return f"HTTP {code}: {text[-300:]}"
    causes = [row for row in (body.get("details") or {}).get("causes") or () if row.get("field") != "<nil>"]
    if not causes:
        return f"no field is named: {text[-300:]}"
    if told and not any(row["field"] == told.field and told.words in row["message"] for row in causes):
        return f"{told.field} should be refused with “{told.words}”: {text[-300:]}"
    mute = [
        row
        for row in causes
        if not TELLS.search(row["message"]) and not any(one in row["message"] for one in sentences())
    ]
    return f"no word of what to do: {mute[0]['message'][-300:]}" if mute else ""


def sentences() -> frozenset[str]:
    """The CRD's own sentences, by what stays of them beside a quoted value."""
    return frozenset(_sentences(spec_schema()))


def _sentences(schema: Schema) -> Iterator[str]:
    for row in schema.get("x-kubernetes-validations", ()):
        yield "is not known; use one of" if "messageExpression" in row else row["message"]
    for part in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        yield from _sentences(part)
