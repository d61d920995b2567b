"""What a drawn spec must agree on: each function takes one conflict out of it that a rule of the CRD would refuse.

Conflicts that the API server cannot see stay in: those are the operator's to tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from windlass_sizing.model.drafter import METHODS

Spec = dict[str, Any]
ONLINE = ("fp8", "ifq", "ifq_nf4", "smoothquant")
CHARACTERS = 60_000  # of JSON; half of what the API server takes, which counts 16 for each row beside its texts
PACKED = re.compile(r"(^|[-_./])(gptq|awq)($|[-_./0-9])", re.IGNORECASE)

PLAIN: Spec = {"pvc": {"claimName": "models", "path": "demo"}}

# Fields of spec.engine that family deepspeed has not, each with a value that asks for it.
NOT_DEEPSPEED: Mapping[str, Any] = {
    "pipelineParallelSize": 2, "gpuMemoryUtilizationPercent": 80, "enforceEager": True,
    "maxNumBatchedTokens": 4096, "schedulerSteps": 2, "prefixCaching": False, "kvCacheDtype": "fp8",
    "trustRemoteCode": False, "ignoreEngineLimits": True, "speculation": {"source": PLAIN},
    "allowedMediaDomains": ["media.example.com"], "prefixOffload": {"enabled": True}, "sequenceParallelSize": 2,
}  # fmt: skip


def mended(spec: Spec) -> Spec:
    """The spec without the conflicts."""
    for mend in MENDS:
        mend(spec)
    return spec


def _lookahead(spec: Spec) -> None:
    engine = spec.get("engine") or {}
    ahead = engine.get("lookahead") or {}
    if ahead.get("enabled"):
        engine.pop("schedulerSteps", None)
    if "speculativeTokens" in ahead and "maxModelLen" in engine:
        engine["maxModelLen"] = max(engine["maxModelLen"], ahead["speculativeTokens"] + 1)


def _quantization(spec: Spec) -> None:
    engine = spec.get("engine") or {}
    if engine.get("quantization") == "ifq_nf4" and "dtype" in engine:
        engine["dtype"] = "float16"
    if engine.get("quantization") in ONLINE and PACKED.search(spec["model"]["id"]):
        del engine["quantization"]


def _adapters(spec: Spec) -> None:
    rows = {row["name"]: row for row in spec["model"].get("adapters") or () if row["name"] != spec["model"]["id"]}
    merged = [row for row in rows.values() if row.get("merge")]
    for row in merged[1:]:
        row["merge"] = False
    for row in rows.values():
        if row.get("source") is not None:
            row["source"] = PLAIN
        elif not row.get("path"):
            row["path"] = "lora"
    if "adapters" in spec["model"]:
        spec["model"]["adapters"] = list(rows.values())


def _speculation(spec: Spec) -> None:
    """One drafter, of a kind that has a field, from one source."""
    engine = spec.get("engine") or {}
    if (engine.get("lookahead") or {}).get("enabled") or engine.get("schedulerSteps", 1) > 1:
        engine.pop("speculation", None)
    if engine.get("speculation"):
        method = engine["speculation"].get("method")
        engine["speculation"] |= {"method": method if method in METHODS else METHODS[0], "source": PLAIN}
        if engine["speculation"]["method"] != METHODS[0]:
            engine["speculation"].pop("runsOn", None)


def _prefix_offload(spec: Spec) -> None:
    """One size, and a prefix cache whose blocks can be kept."""
    engine = spec.get("engine") or {}
    asked = engine.get("prefixOffload") or {}
    if "memory" in asked:
        asked.pop("memoryPercent", None)
    if asked.get("enabled"):
        engine.pop("prefixCaching", None)


def _split(spec: Spec) -> None:
    """A split of prompts has nothing beside it that drafts, adapts or copies, and no second node."""
    engine = spec.get("engine") or {}
    if engine.get("sequenceParallelSize", 1) > 1:
        for name in ("lookahead", "speculation", "workers", "prefixOffload"):
            engine.pop(name, None)
        spec["model"].pop("adapters", None)
        spec.pop("deployment", None)


def _env(spec: Spec) -> None:
    for row in spec.get("env") or ():
        if "valueFrom" in row:
            row.pop("value", None)
            refs = row["valueFrom"]
            row["valueFrom"] = dict([next(iter(refs.items()), ("secretKeyRef", {"name": "a", "key": "k"}))])


def _gateways(spec: Spec) -> None:
    gateway = (spec.get("expose") or {}).get("gateway")
    if gateway:  # what is left out is the empty text to the API server
        rows = {
            tuple(row.get(key, "") for key in ("name", "namespace", "sectionName")): row
            for row in gateway["parentRefs"]
        }
        gateway["parentRefs"] = list(rows.values())


def _layout(spec: Spec) -> None:
    """Mode, nodes, GPUs and their shares."""
    layout, resources, engine = (spec.get(part) or {} for part in ("deployment", "resources", "engine"))
    if layout.get("mode") == "Standard":
        layout.pop("nodes", None)
    if layout.get("mode") == "Distributed":
        engine.pop("workers", None)
        command = spec.get("command") or ()
        if command and command[0] != "run":
            spec["command"] = ["run", *command[1:]]
        if resources.get("gpus", 2) < 2:
            del resources["gpus"]
    if resources.get("gpus"):
        whole = layout.get("nodes", 1) * engine.get("tensorParallelSize", 1)
        resources["gpus"] = -(-resources["gpus"] // whole) * whole
    if "nodes" in layout and resources.get("gpus") == 0:
        del resources["gpus"]
    if resources.get("gpus", 0) > 1024:
        for part, name in ((resources, "gpus"), (engine, "tensorParallelSize")):
            part.pop(name, None)


def _deepspeed(spec: Spec) -> None:
    if (spec.get("image") or {}).get("family") != "deepspeed":
        return
    spec["model"].pop("adapters", None)
    for name in ("apiKeysSecret", "apiKeysSecretRef", "path"):
        (spec.get("expose") or {}).pop(name, None)
    for name in ("lookahead", "quantization", *NOT_DEEPSPEED):
        (spec.get("engine") or {}).pop(name, None)
    for name in ("mode", "nodes", "group"):
        (spec.get("deployment") or {}).pop(name, None)


def _download(spec: Spec) -> None:
    claim = spec["model"]["source"].get("pvc")
    if spec["model"].get("download") and claim is not None:
        claim["path"] = claim.get("path") or "filled"


def _one_form(spec: Spec) -> None:
    """A reference as an object, or by its name alone."""
    expose, cache = spec.get("expose") or {}, spec.get("cache") or {}
    for part, name in ((expose, "apiKeysSecret"), (expose.get("ingress") or {}, "tlsSecret"), (cache, "pvc")):
        if f"{name}Ref" in part:
            part.pop(name, None)


def _cache(spec: Spec) -> None:
    """Another claim than the model's, or than that of adapters and a draft model."""
    models = ((spec["model"]["source"].get("pvc") or {}).get("claimName"), PLAIN["pvc"]["claimName"])
    named = (spec.get("cache") or {}).get("pvcRef")
    if named and named["name"] in models:
        del spec["cache"]["pvcRef"]
    cache, claim = spec.get("cache") or {}, spec["model"]["source"].get("pvc") or {}
    if cache.get("pvc", "") == claim.get("claimName"):
        cache["pvc"] = "" if claim.get("claimName") else "cache"
    if cache.get("pvc") == PLAIN["pvc"]["claimName"]:
        cache["pvc"] = ""


def _volumes(spec: Spec) -> None:
    """One kind each, and none by the name of the model's own."""
    rows = ((spec.get("podTemplate") or {}).get("spec") or {}).get("volumes") or ()
    for row in rows:
        kinds = [key for key in row if key != "name"]
        for key in kinds[1:]:
            del row[key]
        row["name"] = "models" if row["name"] == "model" else row["name"]


def _size(spec: Spec) -> None:
    """A spec that is longer in all than may be keeps short words."""
    if len(json.dumps(spec)) > CHARACTERS:
        for part in ("command", "args", "env", "podTemplate"):
            spec.pop(part, None)


MENDS: tuple[Callable[[Spec], None], ...] = (
    _lookahead, _quantization, _adapters, _speculation, _prefix_offload, _split, _env, _gateways, _layout, _deepspeed,
    _download, _one_form, _cache, _volumes, _size,
)  # fmt: skip
