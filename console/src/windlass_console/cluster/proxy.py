"""Pods and Services behind the API server's proxy, asked with the user's token: metrics and chat.

The API server checks the user's right to the proxy and takes the header Authorization for itself. A key of the service
therefore goes as `X-API-Key`, which our servers take as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from typing_extensions import TypedDict
from windlass_api.objects.reading import Object
from windlass_base.kube.errors import ClientError, ForbiddenError
from windlass_base.kube.rest import Api, Proxied
from windlass_base.untrusted_json import parsed
from windlass_client import paths
from windlass_client.client import AsyncClient

from windlass_console.errors import ServiceAnswerError
from windlass_console.views.metrics import PodMetrics, reduced

HTTP_PORT = "8501"
METRICS_MAX = 1 << 20  # bytes of a pod's metrics; an engine has about 100 KiB
METRICS_LONG = 64 << 10  # bytes; more of them are read in a thread, beside the event loop
METRICS_S = 10.0
PODS_AT_A_TIME, PODS_MAX = 8, 64
SILENCE_S = 300.0  # between two parts of an answer
REFUSAL_MAX = 64 << 10  # bytes of a refusal that are read
SHOWN_MAX = 600  # characters of a refusal that are shown
KEY_HEADER = "X-API-Key"


class Metrics(TypedDict):
    """The metrics of a service's pods at one instant, in Unix time."""

    time: float
    pods: dict[str, PodMetrics]


async def metrics(client: AsyncClient, namespace: str, name: str, key: str = "") -> Metrics:
    """Each running pod's; ForbiddenError where the user may not reach pods."""
    running = [one.name for one in await client.pods(name, namespace) if one.phase == "Running"][:PODS_MAX]
    turn = asyncio.Semaphore(PODS_AT_A_TIME)

    async def one(pod: str) -> PodMetrics:
        async with turn:
            return await _pod_metrics(client.api, namespace, pod, key)

    found = await asyncio.gather(*(one(pod) for pod in running))
    return Metrics(time=time.time(), pods=dict(zip(running, found, strict=True)))


async def _pod_metrics(api: Api, namespace: str, pod: str, key: str) -> PodMetrics:
    path = paths.core(namespace, "pods", f"{pod}:{HTTP_PORT}", "proxy") + "/metrics"
    try:
        async with (
            asyncio.timeout(METRICS_S),
            api.proxied("GET", path, f"pod {namespace}/{pod}", headers=_key(key)) as it,
        ):
            text = await it.read(METRICS_MAX)
            if not it.is_success:
                return PodMetrics(problem=f"pod {pod} refuses its metrics: {_sentence(it.status, text)}")
    except ForbiddenError:
        raise
    except (ClientError, TimeoutError) as error:
        return PodMetrics(problem=f"pod {pod} gives no metrics: {error or 'it does not answer'}")
    if text is None:
        return PodMetrics(problem=f"pod {pod} gives more metrics than are read")
    if len(text) > METRICS_LONG:
        return await asyncio.to_thread(reduced, text.decode("utf-8", "replace"))
    return reduced(text.decode("utf-8", "replace"))


@asynccontextmanager
async def chat(api: Api, namespace: str, name: str, body: bytes, key: str = "") -> AsyncIterator[Proxied]:
    """The service's answer to a chat completion request; ServiceAnswerError where it refuses."""
    path = paths.core(namespace, "services", f"{name}:http", "proxy") + "/v1/chat/completions"
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **_key(key)}
    what = f"service {namespace}/{name}"
    async with api.proxied("POST", path, what, content=body, headers=headers, silence_s=SILENCE_S) as answer:
        if not answer.is_success:
            raise ServiceAnswerError(_refused(what, answer.status, await answer.read(REFUSAL_MAX)), answer.status)
        yield answer


def _key(key: str) -> dict[str, str]:
    return {KEY_HEADER: key} if key else {}


def _refused(what: str, status: int, text: bytes | None) -> str:
    if status in (401, 403):
        return f"{what} asks for one of its API keys: {_sentence(status, text)}; enter a key of the service"
    return f"{what} refuses: {_sentence(status, text)}"


def _sentence(status: int, text: bytes | None) -> str:
    """The message in an error of OpenAI's shape, else the beginning of the text."""
    document: Object = found if isinstance(found := parsed(text or b""), dict) else {}
    error = document.get("error")
    message = error.get("message") if isinstance(error, Mapping) else document.get("message") or document.get("detail")
    shown = message if isinstance(message, str) else (text or b"").decode("utf-8", "replace")
    return " ".join(shown.split())[:SHOWN_MAX] or f"HTTP {status}"
