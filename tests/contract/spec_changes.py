"""What a change of each field of the spec needs around it, and what the operator makes of a spec."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from windlass_api.crd.pod_template import PodTemplateSpec
from windlass_api.crd.rules import VLLM_ONLY
from windlass_api.plan.decide import decide
from windlass_api.plan.model import GPU_RESOURCE, RESOURCE_GROUP_LABEL, Inventory, NodeGpus, Plan, product_label
from windlass_api.plan.record import PlanRecord, recorded_plan
from windlass_api.plan.rollout import choose_rollout
from windlass_operator.manifests.download_job import download_job
from windlass_operator.manifests.inspect_job import inspect_job
from windlass_operator.reconcile.desired_state import must_be_allowed, parse_service, workload
from windlass_operator.settings import Settings
from windlass_sizing.model.drafter import EAGLE3, Stored, read
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_sizing.model.lora import width_of

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip
FACTS = from_config(CONFIG, weights_bytes=15_231_233_024)
DRAFT_FACTS = from_config({**CONFIG, "num_hidden_layers": 2})
HEAD_FACTS = read({**CONFIG, "num_hidden_layers": 1, "architectures": ["LlamaForCausalLMEagle3"]}, Stored())


def _node(name: str, product: str, memory_gib: float, group: str) -> NodeGpus:
    labels = {product_label(GPU_RESOURCE): product, RESOURCE_GROUP_LABEL: group, "pool": "llm"}
    return NodeGpus(name, product, memory_gib, allocatable=8, free=8, labels=labels)


INVENTORY = Inventory(
    (
        _node("a", "NVIDIA-L20", 45.0, "team-a"),
        _node("b", "NVIDIA-L20", 45.0, "team-b"),
        _node("c", "NVIDIA-A100-SXM4-80GB", 80.0, "team-a"),
    )
)
SETTINGS = Settings(
    "windlass/server", "1", "windlass/operator:1", server_cpu_image="windlass/server-cpu", node_paths=("/data",)
)
PVC = {"pvc": {"claimName": "models", "path": "qwen"}}
BASE: dict[str, Any] = {"model": {"id": "Qwen2-7B-Instruct", "source": PVC}}
GATEWAY = {"parentRefs": [{"name": "public"}]}
TOKEN = {"name": "a", "key": "token"}
DOWNLOAD = {"hub": "modelscope", "name": "qwen/Qwen2-7B-Instruct"}
ADAPTER = {"name": "sql", "path": "lora/sql"}
OTHER_VOLUMES = {
    "pvc": ({"claimName": "c", "path": "p"}, {"claimName": "d", "path": "q"}),
    "cfs": ({"server": "s", "path": "/m"}, {"server": "t", "path": "/n"}),
    "nfs": ({"server": "s", "path": "/m"}, {"server": "t", "path": "/n"}),
    "gooseFSx": ({"mountPath": "/data/g", "path": "p"}, {"mountPath": "/data/h", "path": "q"}),
    "hostPath": ({"path": "/data/m"}, {"path": "/data/n"}),
}


def _sources(field: str, around: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, tuple[dict[str, Any], Any]]:
    """A row for each leaf of a source beside the model's; `around` puts the source where the field has it."""
    return {
        f"{field}.{kind}.{name}": (around({kind: before}), after[name])
        for kind, (before, after) in OTHER_VOLUMES.items()
        for name in before
    }


INGRESS = {"host": "a.example"}
TOLERATION = {"key": "team", "operator": "Exists"}
SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}

# What a leaf needs around it, and the value that it is changed to: path → (surroundings, value).
# A path's `[]` stands for the first row of a list.
SPREAD = {"deployment": {"mode": "Distributed", "nodes": 2}, "resources": {"gpus": 2, "gpuType": "L20"}}
CHANGES: dict[str, tuple[dict[str, Any], Any]] = {
    "model.id": ({}, "another"),
    "model.source.pvc.claimName": ({}, "others"),
    "model.source.pvc.path": ({}, "other"),
    "model.source.cfs.server": ({"model": {"source": {"cfs": {"server": "s", "path": "/m"}}}}, "t"),
    "model.source.cfs.path": ({"model": {"source": {"cfs": {"server": "s", "path": "/m"}}}}, "/n"),
    "model.source.nfs.server": ({"model": {"source": {"nfs": {"server": "s", "path": "/m"}}}}, "t"),
    "model.source.nfs.path": ({"model": {"source": {"nfs": {"server": "s", "path": "/m"}}}}, "/n"),
    "model.source.gooseFSx.mountPath": ({"model": {"source": {"gooseFSx": {"mountPath": "/data/g"}}}}, "/data/h"),
    "model.source.gooseFSx.path": ({"model": {"source": {"gooseFSx": {"mountPath": "/data/g"}}}}, "m"),
    "model.source.hostPath.path": ({"model": {"source": {"hostPath": {"path": "/data/m"}}}}, "/data/n"),
    "model.download.hub": ({"model": {"download": DOWNLOAD}}, "huggingface"),
    "model.download.name": ({"model": {"download": DOWNLOAD}}, "qwen/other"),
    "model.download.revision": ({"model": {"download": DOWNLOAD}}, "v1"),
    "model.download.endpoint": ({"model": {"download": DOWNLOAD}}, "https://hub.example"),
    "model.download.tokenSecret.name": ({"model": {"download": {**DOWNLOAD, "tokenSecret": TOKEN}}}, "b"),
    "model.download.tokenSecret.key": ({"model": {"download": {**DOWNLOAD, "tokenSecret": TOKEN}}}, "k"),
    "model.download.include": ({"model": {"download": DOWNLOAD}}, ["*.json"]),
    "model.download.exclude": ({"model": {"download": DOWNLOAD}}, ["*.bin"]),
    "model.download.connections": ({"model": {"download": DOWNLOAD}}, 2),
    "model.download.fsGroup": ({"model": {"download": DOWNLOAD}}, 10001),
    "model.adapters.[].name": ({"model": {"adapters": [ADAPTER]}}, "poet"),
    "model.adapters.[].path": ({"model": {"adapters": [ADAPTER]}}, "lora/other"),
    "model.adapters.[].merge": ({"model": {"adapters": [ADAPTER]}}, True),
    "model.merge": ({"model": {"base": {"pvc": {"claimName": "c", "path": "p"}}}}, True),
    **_sources("model.base", lambda source: {"model": {"base": source}}),
    **_sources(
        "model.adapters.[].source", lambda source: {"model": {"adapters": [{"name": "sql", "source": source}]}}),
    "image.family": ({}, "deepspeed"),
    "image.version": ({}, "2"),
    "image.repository": ({}, "mine/server"),
    "image.pullPolicy": ({}, "Always"),
    "image.pullSecrets.[].name": ({"image": {"pullSecrets": [{"name": "a"}]}}, "b"),
    "deployment.mode": ({"resources": {"gpus": 2}}, "Distributed"),
    "deployment.nodes": ({"resources": {"gpus": 2}}, 2),
    "deployment.group": (SPREAD, "Native"),
    "deployment.rollout": ({}, "Replace"),
    "deployment.drainSeconds": ({}, 7),
    "replicas": ({}, 3),
    "suspend": ({}, True),
    "resources.gpuType": ({}, "A100-80G"),
    "resources.gpus": ({}, 4),
    "resources.cpu": ({}, "9"),
    "resources.memory": ({}, "99Gi"),
    "resources.sharedMemory": ({}, "9Gi"),
    "resources.resourceGroup": ({}, "team-a"),
    "engine.quantization": ({}, "fp8"),
    "engine.lookahead.enabled": ({}, True),
    "engine.lookahead.speculativeTokens": ({"engine": {"lookahead": {"enabled": True}}}, 4),
    "engine.speculation.method": ({"engine": {"speculation": {"source": PVC}}}, "eagle3"),
    "engine.speculation.tokens": ({"engine": {"speculation": {"source": PVC}}}, 2),
    "engine.speculation.runsOn": ({"engine": {"speculation": {"source": PVC}}}, "cpu"),
    **_sources("engine.speculation.source", lambda source: {"engine": {"speculation": {"source": source}}}),
    "engine.maxModelLen": ({}, 1024),
    "engine.dtype": ({}, "bfloat16"),
    "engine.gpuMemoryUtilizationPercent": ({}, 80),
    "engine.enforceEager": ({}, True),
    "engine.tensorParallelSize": ({}, 2),
    "engine.pipelineParallelSize": ({}, 2),
    "engine.sequenceParallelSize": ({}, 2),
    "engine.workers": ({}, 2),
    "engine.maxConcurrency": ({}, 16),
    "engine.maxNumSeqs": ({}, 16),
    "engine.maxNumBatchedTokens": ({}, 4096),
    "engine.schedulerSteps": ({}, 8),
    "engine.prefixCaching": ({}, False),
    "engine.prefixOffload.enabled": ({}, True),
    "engine.prefixOffload.memory": ({"engine": {"prefixOffload": {"enabled": True}}}, "8Gi"),
    "engine.prefixOffload.memoryPercent": ({"engine": {"prefixOffload": {"enabled": True}}}, 20),
    "engine.kvCacheDtype": ({}, "fp8"),
    "engine.trustRemoteCode": ({}, False),
    "engine.convTemplate": ({}, "qwen"),
    "engine.seed": ({}, 7),
    "engine.ignoreEngineLimits": ({}, True),
    "engine.allowedMediaDomains": ({}, ["images.example.com"]),
    "engine.memoryCache": ({}, False),
    "command": ({}, ["run", "--seed", "1"]),
    "args": ({}, ["--seed", "2"]),
    "env.[].name": ({"env": [{"name": "A", "value": "1"}]}, "B"),
    "env.[].value": ({"env": [{"name": "A", "value": "1"}]}, "2"),
    "env.[].valueFrom.secretKeyRef.name": ({"env": [{"name": "A", "valueFrom": SECRET}]}, "t"),
    "env.[].valueFrom.secretKeyRef.key": ({"env": [{"name": "A", "valueFrom": SECRET}]}, "l"),
    "env.[].valueFrom.configMapKeyRef.name": (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]}, "d"),
    "env.[].valueFrom.configMapKeyRef.key": (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]}, "l"),
    "expose.apiKeysSecret": ({}, "keys"),
    "expose.apiKeysSecretRef.name": ({}, "keys"),
    "expose.path": ({}, "/qwen2-7b"),
    "expose.timeoutSeconds": ({"expose": {"ingress": INGRESS}}, 60),
    "expose.ingress.host": ({"expose": {"ingress": INGRESS}}, "b.example"),
    "expose.ingress.className": ({"expose": {"ingress": INGRESS}}, "nginx"),
    "expose.ingress.tlsSecret": ({"expose": {"ingress": INGRESS}}, "tls"),
    "expose.ingress.tlsSecretRef.name": ({"expose": {"ingress": INGRESS}}, "tls"),
    "expose.ingress.annotations": ({"expose": {"ingress": INGRESS}}, {"haproxy.org/timeout-connect": "5s"}),
    "expose.gateway.parentRefs.[].name": ({"expose": {"gateway": GATEWAY}}, "private"),
    "expose.gateway.parentRefs.[].namespace": ({"expose": {"gateway": GATEWAY}}, "gateways"),
    "expose.gateway.parentRefs.[].sectionName": ({"expose": {"gateway": GATEWAY}}, "https"),
    "expose.gateway.hostnames": ({"expose": {"gateway": GATEWAY}}, ["a.example"]),
    "license.required": ({}, False),
    "license.addresses": ({}, ["http://l.example"]),
    "cache.pvc": ({}, "compiled"),
    "cache.pvcRef.name": ({}, "compiled"),
    "cache.sizeLimit": ({}, "9Gi"),
    "scheduling.nodeSelector": ({}, {"pool": "llm"}),
    "scheduling.tolerations.[].key": ({"scheduling": {"tolerations": [TOLERATION]}}, "other"),
    "scheduling.tolerations.[].operator": ({"scheduling": {"tolerations": [TOLERATION]}}, "Equal"),
    "scheduling.tolerations.[].value": ({"scheduling": {"tolerations": [{"key": "team"}]}}, "a"),
    "scheduling.tolerations.[].effect": ({"scheduling": {"tolerations": [TOLERATION]}}, "NoExecute"),
    "scheduling.priorityClassName": ({}, "serving"),
    "scheduling.topologySpread": ({}, "Zone"),
    "podTemplate.labels": ({}, {"a": "b"}),
    "podTemplate.annotations": ({}, {"a": "b"}),
}  # fmt: skip
INERT = {
    "deployment.maxRestarts": "read when a group keeps failing: it decides when the group is stopped, not what it is",
}
ADAPTERS_AND_DRAFTS = ("model.adapters", "model.base", "model.merge", "engine.speculation")
# Refused at admission for family deepspeed: by the rule of VLLM_ONLY, and by those on modes, adapters and keys.
NOT_DEEPSPEED = {
    *(f"engine.{name}" for name in VLLM_ONLY),
    "engine.quantization", "engine.lookahead.enabled", "engine.lookahead.speculativeTokens",
    "deployment.mode", "deployment.nodes", "deployment.group",
    *(path for path in CHANGES if path.startswith((*ADAPTERS_AND_DRAFTS, "engine.prefixOffload."))),
    "expose.apiKeysSecret", "expose.apiKeysSecretRef.name", "expose.path",
}  # fmt: skip


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    out = copy.deepcopy(base)
    for key, value in over.items():
        same = isinstance(value, dict) and isinstance(out.get(key), dict) and key != "source"
        out[key] = merged(out[key], value) if same else copy.deepcopy(value)
    return out


def changed(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    out = copy.deepcopy(spec)
    here: Any = out
    *steps, last = path.split(".")
    for step in steps:
        here = here[0] if step == "[]" else here.setdefault(step, {})
    here[last] = value
    return out


def facts_for(spec: dict[str, Any]) -> ModelFacts:
    """What the inspect Job would find: adapters of rank 8 where there are any, and what drafts by the method."""
    model, engine = spec["model"], spec.get("engine", {})
    count, width = len(model.get("adapters", ())) or int("base" in model), width_of(CONFIG)
    merged = model.get("merge") or any(one.get("merge") for one in model.get("adapters", ()))
    room = {"adapters": count, "lora_slots": 0 if merged else count, "lora_rank": 8}
    rows = {"lora_whole": width.whole, "lora_split": width.split, "is_adapter": "base" in model or None}
    found = replace(FACTS, **room, **rows) if count else FACTS
    if "speculation" not in engine:
        return found
    return replace(found, draft=HEAD_FACTS if engine["speculation"].get("method") == EAGLE3 else DRAFT_FACTS)


def rendered(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything that the operator makes of this spec."""
    service = parse_service({"metadata": {"name": "qwen", "namespace": "a", "uid": "u"}, "spec": spec})
    must_be_allowed(service, SETTINGS)
    # The nodes that a test's pod template names are none of these.
    plan = decide(service.spec.model_copy(update={"pod_template": PodTemplateSpec()}), facts_for(spec), INVENTORY)
    assert isinstance(plan, Plan), plan
    record = PlanRecord("same", plan, choose_rollout(service.spec.deployment.rollout, plan, INVENTORY), "same")
    assert recorded_plan(record.to_text()) == record, "a plan that is not believed would be made anew at every look"
    jobs = [inspect_job(service, SETTINGS.operator_image, "IfNotPresent")]
    if service.spec.model.download:
        jobs.append(download_job([service], SETTINGS.operator_image, "IfNotPresent"))
    return [*jobs, *(_without_plan(item) for item in workload(service, record, SETTINGS))]


def _without_plan(manifest: dict[str, Any]) -> dict[str, Any]:
    """The plan's own text is a remark, not an effect."""
    meta = {key: value for key, value in manifest["metadata"].items() if key != "annotations"}
    return {**manifest, "metadata": meta} if manifest["kind"] == "Service" else manifest


def serving_containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The containers of all pods that the operator makes of this spec."""
    for manifest in rendered(spec):
        yield from manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
