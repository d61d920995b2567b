"""What the guard answers by itself: the front page, facts, metrics and the chat page."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from windlass.front.processes import numbers
from windlass.front.processes.numbers import Numbers
from windlass.front.refusal import Refusal
from windlass.front.settings import ApiSettings
from windlass.front.usage import counters

FACTS_VERSION = 1
TEXT = b"text/plain; version=0.0.4; charset=utf-8"
LINKS = {"chat": "/chat", "models": "/v1/models", "docs": "/docs", "health": "/health", "metrics": "/metrics"}


def front(names: tuple[str, ...], root: str) -> bytes:
    """What this is, for somebody who opened the bare address."""
    return _json(
        {
            "name": "Windlass",
            "about": "an OpenAI-compatible API of language models, served by vLLM",
            "models": list(names),
            "links": {name: root + path for name, path in LINKS.items()},
        }
    )


def facts(settings: ApiSettings, names: tuple[str, ...], known: Numbers, *, keys: bool) -> bytes:
    """The settings without secrets, and what goes on now."""
    return _json(
        {
            "version": FACTS_VERSION,
            "models": list(names),
            "keysRequired": keys,
            "metricsClosed": settings.metrics_closed,
            "imageDomains": list(settings.image_domains),
            "extraStopIds": list(settings.extra_stop_ids),
            "limits": {
                "bodyBytes": settings.max_body_bytes,
                "jsonBytes": settings.max_json_bytes,
                "concurrency": settings.concurrency,
                "queue": settings.queue,
            },
            "processes": settings.processes,
            "running": known[numbers.RUNNING,],
            "waiting": known[numbers.WAITING,],
            "stopping": bool(known[numbers.STOPPING,]),
            "refused": {status: number for (status,), number in numbers.labelled(known, numbers.REFUSED).items()},
        }
    )


def metrics(known: Numbers) -> bytes:
    """The same numbers for Prometheus."""
    lines = [
        *_metric("windlass_api_requests_running", "gauge", "requests that the engine works on"),
        f"windlass_api_requests_running {known[numbers.RUNNING,]}",
        *_metric("windlass_api_requests_waiting", "gauge", "requests that wait for a place"),
        f"windlass_api_requests_waiting {known[numbers.WAITING,]}",
        *_metric("windlass_api_wait_seconds", "summary", "how long requests waited for their place"),
        f"windlass_api_wait_seconds_count {known[numbers.GRANTED,]}",
        f"windlass_api_wait_seconds_sum {known[numbers.WAITED_S,]:.6f}",
        *_metric("windlass_api_unread_bytes", "gauge", "answers that are made and that slow clients have not read"),
        f"windlass_api_unread_bytes {known[numbers.UNREAD,]}",
        *_metric("windlass_api_readers_ended_total", "counter", "connections ended because the client took nothing"),
        f"windlass_api_readers_ended_total {known[numbers.ENDED,]}",
        *_metric("windlass_api_body_bytes", "gauge", "bodies of requests that are being read or answered"),
        f"windlass_api_body_bytes {known[numbers.BODIES,]}",
        *_metric("windlass_api_requests_refused_total", "counter", "requests that the guard refused, by HTTP status"),
        *(
            f'windlass_api_requests_refused_total{{status="{code}"}} {n}'
            for (code,), n in numbers.labelled(known, numbers.REFUSED).items()
        ),
    ]
    return ("\n".join(lines) + "\n").encode()


def quantization(service: str, method: str) -> bytes:
    """The method of the weights as a label, which queries join to other series of the pod."""
    name = "windlass_quantization_info"
    labels = f'llmservice="{counters.escaped(service)}",method="{counters.escaped(method)}"'
    help_ = "1; the label names the method of the weights"
    return ("\n".join([*_metric(name, "gauge", help_), f"{name}{{{labels}}} 1"]) + "\n").encode()


def usage(service: str, known: Numbers) -> bytes:
    """What keys used, by the names of keys alone, and whether their limits hold, for Prometheus."""
    lines = [
        *counters.lines(service, numbers.totals(known)),
        *_metric("windlass_usage_unrecorded_total", "counter", "answered requests that the hourly records lack"),
        f"windlass_usage_unrecorded_total {known[numbers.UNRECORDED,]}",
        *_metric(
            "windlass_limits_refused_total", "counter", "requests refused because a limit of their key was reached"
        ),
        *(
            f'windlass_limits_refused_total{{key="{key}",limit="{limit}"}} {number}'
            for (key, limit), number in numbers.labelled(known, numbers.OVER_LIMIT).items()
        ),
        *_metric("windlass_limits_replicas", "gauge", "other replicas that hold the limits together with this one"),
        f"windlass_limits_replicas {known[numbers.REPLICAS,]}",
        *_metric("windlass_limits_alone_total", "counter", "requests decided without the replica that decides for all"),
        f"windlass_limits_alone_total {known[numbers.ALONE,]}",
        *_metric("windlass_api_keys_wrong", "gauge", "whether the key file cannot be used as it is"),
        f"windlass_api_keys_wrong {int(known[numbers.KEYS_WRONG,] > 0)}",
    ]
    return ("\n".join(lines) + "\n").encode()


def chat() -> tuple[bytes, dict[str, str]]:
    """The static chat page and its headers; imported when first asked for."""
    try:
        module = import_module("windlass.chat_page")
    except ModuleNotFoundError:
        raise Refusal(404, "this installation has no chat page; use the API at /v1/chat/completions") from None
    body, headers = module.page()
    return bytes(body), dict(headers)


def _metric(name: str, type_: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} {type_}"


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=2).encode() + b"\n"
