"""Every route of the engine, as rows: who may use it, and what the guard does with its body. Pure.

The rows are an allow-list. A route that has no row is not there for anybody, so an engine that learns a new one opens
nothing; `tests/engine/api/test_routes.py` walks the real engine's routes and fails on the first without a row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Access(Enum):
    """Who may use a route."""

    OPEN = "open"
    """Everybody, without a key."""
    METRICS = "metrics"
    """Everybody, unless the settings close the metrics."""
    KEY = "key"
    """Who has a key."""
    CLOSED = "closed"
    """Nobody: who may ask the model something may not control the engine, or what others asked it."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path with the methods that it takes; `{name}` in the path is one segment."""

    path: str
    json: bool = True
    """Its body is a JSON object with a `model`."""
    sampled: bool = False
    """The ranges of `fields` hold for it."""
    filled: bool = False
    """It gets the defaults of `fields`, `no_repeat_ngram_size` and the extra stop ids."""
    gated: bool = True
    """It occupies the engine, so it takes a place in the queue."""
    gives: str = ""
    """What a model must give for the engine to have this route; empty for text."""
    methods: tuple[str, ...] = ("POST",)
    access: Access = Access.KEY
    is_upload: bool = False
    """Its body is a form with a file."""
    stream_options: bool = False
    """Its streams tell their usage when `stream_options` asks for it, and not else."""


READ = ("GET", "HEAD")
WORDS = re.compile(r"\{[a-z_]+\}")


def _read(*paths: str, access: Access = Access.KEY) -> Iterator[Route]:
    return (Route(path, json=False, gated=False, methods=READ, access=access) for path in paths)


def _closed(*paths: str, methods: tuple[str, ...] = ("POST",)) -> Iterator[Route]:
    return (Route(path, json=False, gated=False, methods=methods, access=Access.CLOSED) for path in paths)


OURS = ("/", "/chat", "/windlass/facts", "/windlass/metrics")
"""Paths that the guard answers by itself."""
ROWS: tuple[Route, ...] = (
    Route("/v1/chat/completions", sampled=True, filled=True, stream_options=True),
    Route("/v1/completions", sampled=True, filled=True, stream_options=True),
    Route("/v1/chat/completions/batch", sampled=True, filled=True),
    Route("/invocations", sampled=True, stream_options=True),
    Route("/v1/responses", sampled=True),
    Route("/v1/messages", sampled=True),
    Route("/cohere/v2/chat", sampled=True),
    Route("/inference/v1/generate"),
    Route("/generative_scoring"),
    Route("/v1/systemone"),
    *(Route(path, gives="embeddings") for path in ("/v1/embeddings", "/v2/embed", "/pooling")),
    *(Route(path, gives="scores") for path in ("/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank")),
    Route("/classify", gives="classes"),
    Route("/v1/audio/transcriptions", json=False, is_upload=True, gives="transcriptions"),
    Route("/v1/audio/translations", json=False, is_upload=True, gives="translations of speech"),
    *(Route(path, gated=False) for path in ("/tokenize", "/detokenize", "/v1/messages/count_tokens")),
    *(
        Route(f"/v1/{name}/render", gated=False)
        for name in ("chat/completions", "completions", "responses", "messages")
    ),
    *(Route(f"/v1/{name}/derender", gated=False) for name in ("chat/completions", "completions")),
    Route("/v1/responses/{response_id}/cancel", json=False, gated=False),
    Route("/ping", json=False, gated=False),
    *_read("/v1/models", "/v1/responses/{response_id}", "/tokenizer_info", "/version", "/load", "/kv_event_sources"),
    *_read("/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json", "/static/{file}", "/windlass/facts"),
    *_read("/health", "/ping", "/", "/chat", access=Access.OPEN),
    *_read("/metrics", "/windlass/metrics", access=Access.METRICS),
    # The number of engines, the profiler, adapters, weights, caches, sleep, and the requests of others.
    *_closed("/scale_elastic_ep", "/is_scaling_elastic_ep", "/start_profile", "/stop_profile"),
    *_closed("/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/adapters", "/fault_tolerance/apply"),
    *_closed("/adapters/{adapter_name}", methods=("DELETE",)),
    *_closed("/abort_requests", "/inference/v1/abort_requests", "/collective_rpc", "/pause", "/resume"),
    *_closed("/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache"),
    *_closed("/sleep", "/wake_up", "/release_kv_cache_memory"),
    *_closed("/init_weight_transfer_engine", "/shutdown_weight_transfer_engine", "/start_weight_update"),
    *_closed("/start_draft_weight_update", "/update_weights", "/finish_weight_update", "/update_weight_version"),
    *_closed("/weight_checker"),
    *_closed("/fault_tolerance/status", "/server_info", "/is_sleeping", "/is_paused", "/weight_info", methods=READ),
    *_closed("/get_world_size", methods=READ),
)
SOCKETS: dict[str, Access] = {"/v1/realtime": Access.KEY}
"""The engine's websockets."""


@dataclass(frozen=True, slots=True)
class Rows:
    """All the rows of one path."""

    by_method: Mapping[str, Route]

    def row(self, method: str) -> Route | None:
        """The row of a method."""
        return self.by_method.get(method)

    @property
    def methods(self) -> tuple[str, ...]:
        """For the header Allow."""
        return tuple(sorted(self.by_method))

    @property
    def is_closed(self) -> bool:
        """Closed for every method, whatever the engine would take."""
        return any(row.access is Access.CLOSED for row in self.by_method.values())


def _by_path(rows: Collection[Route]) -> dict[str, Rows]:
    paths = dict.fromkeys(row.path for row in rows)
    return {path: Rows({method: row for row in rows if row.path == path for method in row.methods}) for path in paths}


TABLE: dict[str, Rows] = _by_path(ROWS)
ROUTES: dict[str, Route] = {row.path: row for row in ROWS if "POST" in row.methods and row.access is Access.KEY}
PATTERNS: tuple[tuple[re.Pattern[str], Rows], ...] = tuple(
    (re.compile("[^/]+".join(map(re.escape, WORDS.split(path)))), rows) for path, rows in TABLE.items() if "{" in path
)


def find(path: str, opened: Collection[str] = ()) -> Rows | None:
    """The rows of a path; `opened` are paths that the settings open for every key, whatever their row says."""
    if path in opened:
        methods = ("GET", "HEAD", "POST", "PUT", "DELETE")
        return Rows({method: Route(path, json=False, gated=False, methods=(method,)) for method in methods})
    exact = TABLE.get(path)
    if exact and "{" not in path:
        return exact
    matching = (rows for pattern, rows in PATTERNS if pattern.fullmatch(path))
    return next(matching, None)


def route_path(scope: Mapping[str, Any]) -> str:
    """The path that the engine's router will match: without the root path, by its own rule; the root path is `/`."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    if not root or not path.startswith(root):
        return path
    rest = path[len(root) :] or "/"
    return rest if rest.startswith("/") else path


def is_open(row: Route, *, metrics_closed: bool) -> bool:
    """Whether a route is answered without a key."""
    return row.access is Access.OPEN or (row.access is Access.METRICS and not metrics_closed)
