"""Asks serving pods for their facts; a pod that does not answer in time has none yet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import httpx2

from windlass_operator.status.children import Object, dig, name_of
from windlass_operator.status.facts import PodFacts, parse
from windlass_operator.untrusted_json import parsed

PORT = 8502
TIMEOUT_S = 2.0
ANSWER_MAX = 64 * 1024
PLAIN = {"Accept-Encoding": "identity"}  # a few packed bytes could unfold to any size
PODS_MAX = 8  # of one service; more would only say the same


async def pod_facts(http: httpx2.AsyncClient, pods: Iterable[Object]) -> tuple[PodFacts, ...]:
    """The facts of the pods that run and answer."""
    running = [pod for pod in pods if dig(pod, "status", "phase") == "Running" and dig(pod, "status", "podIP")]
    answers = await asyncio.gather(*(_ask(http, pod) for pod in running[:PODS_MAX]))
    return tuple(answer for answer in answers if answer is not None)


async def first_answer(http: httpx2.AsyncClient, pods: Iterable[Object]) -> object:
    """The facts, as they came, of the first pod that runs and answers; None when none does."""
    running = [pod for pod in pods if dig(pod, "status", "phase") == "Running" and dig(pod, "status", "podIP")]
    for pod in running[:PODS_MAX]:
        told = await _fetch(http, pod)
        if told is not None:
            return told
    return None


async def _ask(http: httpx2.AsyncClient, pod: Object) -> PodFacts | None:
    told = await _fetch(http, pod)
    return None if told is None else parse(name_of(pod), told)


async def _fetch(http: httpx2.AsyncClient, pod: Object) -> object:
    address = str(dig(pod, "status", "podIP"))
    host = f"[{address}]" if ":" in address else address
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),  # httpx2's own time-outs bound each step, not the whole
            http.stream("GET", f"http://{host}:{PORT}/windlass/facts", timeout=TIMEOUT_S, headers=PLAIN) as answer,
        ):
            if answer.status_code != httpx2.codes.OK or "content-encoding" in answer.headers:
                return None
            body = bytearray()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > ANSWER_MAX:  # a pod may run any image, and send without end
                    return None
            return parsed(bytes(body))
    except (httpx2.HTTPError, TimeoutError):
        return None
