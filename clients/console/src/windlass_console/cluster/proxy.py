"""Pods and Services behind the API server's proxy, asked with the user's token: metrics and chat.

The API server checks the user's right to the proxy and takes the header Authorization for itself. A key of the service
therefore goes as `X-API-Key`, which our servers take as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from typing_extensions import TypedDict
from windlass_base.kube.errors import ClientError, ForbiddenError, UnauthorizedError
from windlass_base.kube.rest import Api, Proxied
from windlass_client.client import AsyncClient

from windlass_console.cluster import foreign
from windlass_console.cluster.foreign import Ask, Program, sentence
from windlass_console.errors import ServiceAnswerError
from windlass_console.views.metrics import PodMetrics, reduced

HTTP_PORT = "8501"
METRICS_MAX = 1 << 20  # bytes of a pod's metrics; an engine has about 100 KiB
METRICS_LONG = 64 << 10  # bytes; more of them are read in a thread, beside the event loop
METRICS_S = 10.0
PODS_AT_A_TIME, PODS_MAX = 8, 64
SILENCE_S = 300.0  # between two parts of an answer
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
    program = Program(namespace, "pods", pod, HTTP_PORT, f"pod {namespace}/{pod}")
    try:
        async with (
            asyncio.timeout(METRICS_S),
            foreign.asked(api, program, Ask("GET", "/metrics", headers=_key(key))) as it,
        ):
            text = await it.read(METRICS_MAX)
            if not it.is_success:
                return PodMetrics(problem=f"pod {pod} refuses its metrics: {sentence(it.status, text)}")
    except (ForbiddenError, UnauthorizedError):  # a review's word
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
    program = Program(namespace, "services", name, "http", f"service {namespace}/{name}")
    headers = {"Content-Type": "application/json", **_key(key)}
    ask = Ask("POST", "/v1/chat/completions", body, headers, SILENCE_S)
    async with foreign.asked(api, program, ask) as answer:
        if not answer.is_success:
            text = await answer.read(foreign.REFUSAL_MAX)
            raise ServiceAnswerError(_refused(program.what, answer.status, text), answer.status)
        yield answer


def _key(key: str) -> dict[str, str]:
    return {KEY_HEADER: key} if key else {}


def _refused(what: str, status: int, text: bytes | None) -> str:
    if status in (401, 403):
        return f"{what} asks for one of its API keys: {sentence(status, text)}; enter a key of the service"
    if status in foreign.NO_ANSWER:
        return f"{what} cannot be reached: {sentence(status, text)}; wait until the service is running"
    return f"{what} refuses: {sentence(status, text)}"
