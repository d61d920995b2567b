"""The engine's routes that the guard treats specially, as rows. A route that is not here only needs a key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OPEN = frozenset({"/health", "/ping", "/", "/chat"})
"""Answered without a key, for GET and HEAD."""
METRICS = frozenset({"/metrics", "/metrics/", "/windlass/metrics"})
"""Open too, unless the settings close them."""

CLOSED = frozenset({"/scale_elastic_ep", "/is_scaling_elastic_ep"})
"""Closed to everybody: who may ask the model something may not change how many engines serve it."""


@dataclass(frozen=True, slots=True)
class Route:
    """One POST route."""

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


ROUTES: dict[str, Route] = {
    route.path: route
    for route in (
        Route("/v1/chat/completions", sampled=True, filled=True),
        Route("/v1/completions", sampled=True, filled=True),
        Route("/v1/chat/completions/batch", sampled=True, filled=True),
        Route("/invocations", sampled=True),
        Route("/v1/responses", sampled=True),
        Route("/v1/messages", sampled=True),
        Route("/cohere/v2/chat", sampled=True),
        Route("/inference/v1/generate"),
        Route("/generative_scoring"),
        Route("/v1/systemone"),
        *(Route(path, gives="embeddings") for path in ("/v1/embeddings", "/v2/embed", "/pooling")),
        *(Route(path, gives="scores") for path in ("/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank")),
        Route("/classify", gives="classes"),
        Route("/v1/audio/transcriptions", json=False, gives="transcriptions"),
        Route("/v1/audio/translations", json=False, gives="translations of speech"),
        *(Route(path, gated=False) for path in ("/tokenize", "/detokenize", "/v1/messages/count_tokens")),
        *(Route(f"/v1/{name}/render", gated=False) for name in ("chat/completions", "completions", "responses")),
    )
}


def tidy(path: str) -> str:
    """The path with runs of slashes made one: a base URL that ends in a slash is a common slip."""
    return re.sub(r"/{2,}", "/", path)


def route_path(scope: Mapping[str, Any]) -> str:
    """The path that the engine's router will match: without the root path, by the router's own rule."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    if not root or not path.startswith(root):
        return path
    rest = path[len(root) :]
    return rest if rest.startswith("/") or not rest else path


def is_open(method: str, path: str, *, metrics_closed: bool) -> bool:
    """Whether a path is answered without a key."""
    if method not in ("GET", "HEAD"):
        return False
    return path in OPEN or (path in METRICS and not metrics_closed)
