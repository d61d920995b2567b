"""LLMServices of every sort that the operator lays out differently, for runs that look at what it does over time."""

from __future__ import annotations

from typing import Any

NFS = {"nfs": {"server": "10.0.0.12", "path": "/models/qwen"}}
SORTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "two": {"replicas": 2},
    "cpu": {"resources": {"gpus": 0, "memory": "4Gi"}, "engine": {"maxModelLen": 2048}},
    "called": {
        "expose": {"apiKeysSecretRef": {"name": "keys"}, "ingress": {"host": "a.example", "className": "nginx"}}
    },
    "spread": {
        "deployment": {"mode": "Distributed", "nodes": 2, "group": "Native"},
        "resources": {"gpus": 2, "gpuType": "L20"},
    },
    "overlaid": {"podTemplate": {"labels": {"team": "a"}, "spec": {"runtimeClassName": "nvidia"}}},
    "placed": {"scheduling": {"priorityClassName": "high", "topologySpread": "Node"}, "cache": {"sizeLimit": "9Gi"}},
    "asleep": {"suspend": True},
    "none": {"replicas": 0},
    "waiting": {"resources": {"gpuType": "B200"}},
    "told": {"engine": {"lookahead": {"enabled": True}, "convTemplate": "qwen"}, "env": [{"name": "A", "value": "1"}]},
}
RUNNING = ("plain", "two", "cpu", "called", "spread", "told")


def service(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The resource; its model is what kwok's inspect pods answer for every path."""
    whole = {"model": {"id": "Qwen2-0.5B-Instruct", "source": NFS}, "license": {"required": False}, **spec}
    return {
        "apiVersion": "serving.windlass.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name},
        "spec": whole,
    }
