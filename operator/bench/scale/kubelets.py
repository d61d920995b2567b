"""What the pods of the scale run do: kwok's stages for inspect and serving pods, and the facts port of the latter."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import yaml
from windlass_sizing.model.facts import from_config

FACTS_PORT = 8502
# Where this program answers for every serving pod; another loopback address lets two runs go side by side.
POD_IP_VARIABLE = "WINDLASS_BENCH_POD_IP"
POD_IP = os.environ.get(POD_IP_VARIABLE, "127.0.0.1")
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
FOUND = json.dumps({"ok": True, "facts": from_config(CONFIG, weights_bytes=988_097_824).to_dict()})
POD_FACTS = {"version": 1, "phase": "ready", "phases": [{"phase": "engine", "seconds": 1.0}],
             "license": {"state": "notRequired"}}  # fmt: skip
INSPECTED = """{{ $now := Now }}
phase: Succeeded
startTime: {{ $now | Quote }}
containerStatuses:
- name: inspect
  image: {{ (index .spec.containers 0).image | Quote }}
  imageID: ""
  ready: false
  restartCount: 0
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
      message: __FOUND__
"""
SERVING = """{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
podIP: __POD_IP__
podIPs:
- ip: __POD_IP__
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
"""

NODE = """{{ $now := Now }}
conditions:
- {type: Ready, status: "True", reason: KubeletReady, message: ready, lastTransitionTime: {{ $now | Quote }},
   lastHeartbeatTime: {{ $now | Quote }}}
"""


def stages() -> str:
    """kwok's configuration: an inspect pod ends with the facts, a serving pod runs and is ready."""
    inspected = INSPECTED.replace("__FOUND__", json.dumps(FOUND))
    serving = SERVING.replace("__POD_IP__", POD_IP)
    rows = (_node(), _stage("inspect", inspected), _stage("server", serving), _deletion())
    return yaml.safe_dump_all(rows, sort_keys=False)


def _node() -> dict[str, object]:
    """Without a stage for nodes kwok plays no pods either."""
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    waits = {"matchExpressions": [{"key": ready, "operator": "NotIn", "values": ["True"]}]}
    return _row("node", waits, {"statusTemplate": NODE}, kind="Node")


def _stage(component: str, template: str) -> dict[str, object]:
    pending = {"key": ".status.phase", "operator": "In", "values": ["Pending"]}
    return _row(
        component,
        {
            "matchLabels": {"app.kubernetes.io/component": component},
            "matchExpressions": [{"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}, pending],
        },
        {"statusTemplate": template},
    )


def _deletion() -> dict[str, object]:
    gone = {"matchExpressions": [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}]}
    return _row("delete", gone, {"delete": True})


def _row(name: str, selector: dict[str, object], following: dict[str, object], kind: str = "Pod") -> dict[str, object]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {"resourceRef": {"apiGroup": "v1", "kind": kind}, "selector": selector, "next": following},
    }


@asynccontextmanager
async def facts_port() -> AsyncIterator[None]:
    """Answer GET /windlass/facts for all serving pods."""
    body = json.dumps(POD_FACTS).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(head + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        except asyncio.CancelledError:  # the run ends; asyncio of Python 3.11 prints a trace of a task that says so
            writer.close()

    try:
        server = await asyncio.start_server(answer, POD_IP, FACTS_PORT)
    except OSError as error:
        raise SystemExit(f"{POD_IP}:{FACTS_PORT} is taken, as by another such run: set {POD_IP_VARIABLE}") from error
    async with server:
        yield
