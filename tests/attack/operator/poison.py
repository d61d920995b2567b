"""LLMServices that stop an operator which reads them without bounds, and an inspection that stops its planning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml
from windlass_sizing.model.facts import from_config

DEEP_LEVELS = 985  # the recursion limit of Python less what the operator's own calls take
DEEP = "{nested}"  # stands for the nested object, which Python itself cannot write
# etcd takes 1.5 MiB. In few texts, which the API server checks fast.
LARGE_BYTES, LARGE_TEXT = 1_250_000, 12_500
HEADS = 1_000_000_000_039  # a prime: nothing divides it, so a loop over its divisors comes to its end
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000,
    "max_position_embeddings": 256,
}  # fmt: skip


def service(name: str, **spec: Any) -> dict[str, Any]:
    """An LLMService with these fields of its spec beside the least."""
    source = {"nfs": {"server": "10.0.0.12", "path": f"/models/{name}"}}
    least = {"model": {"id": "Qwen2-0.5B-Instruct", "source": source}, "license": {"required": False}}
    meta = {"name": name}
    return {"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService", "metadata": meta, "spec": least | spec}


def deep(name: str) -> dict[str, Any]:
    """Finding 1: nine KiB that a recursive parser does not survive."""
    return service(name, podTemplate={"spec": {"affinity": DEEP}})


def large(name: str) -> dict[str, Any]:
    """Finding 13: ninety of these take 512 MiB."""
    rows = {f"k{number}": "x" * LARGE_TEXT for number in range(LARGE_BYTES // LARGE_TEXT)}
    return service(name, podTemplate={"spec": {"affinity": rows}})


def implausible(name: str) -> dict[str, Any]:
    """Finding 2: ordinary itself; `FOUND` is what its inspection is made to say."""
    return service(name)


def written(body: dict[str, Any]) -> bytes:
    """The resource as it goes over the wire."""
    nested = '{"a":' * DEEP_LEVELS + "1" + "}" * DEEP_LEVELS
    return json.dumps(body).replace(json.dumps(DEEP), nested).encode()


def poisoned(count: int) -> Iterator[dict[str, Any]]:
    """A mix of them, by name."""
    kinds = (deep, large, implausible)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield kind(f"{kind.__name__}-{number}")


def unguarded_crd(text: str) -> str:
    """The CRD as an older chart left it: any `podTemplate.spec`, of any size. An operator may meet its objects."""
    crd = yaml.safe_load(text)
    for version in crd["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["podTemplate"]["properties"]["spec"] = ANYTHING
        rules = spec.pop("x-kubernetes-validations")
        spec["x-kubernetes-validations"] = [row for row in rules if "podTemplate" not in row["rule"]]
    return json.dumps(crd)


def found() -> str:
    """The termination message of an inspection by an operator of any version, or of somebody who writes one himself."""
    facts = from_config(LLAMA).to_dict() | {"num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": 1}
    return json.dumps({"ok": True, "facts": facts | {"params": 8 * 10**12, "weights_bytes": 16 * 10**12}})
