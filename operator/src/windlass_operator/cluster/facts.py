"""Asks serving pods for their facts; a pod that does not answer in time has none yet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import httpx2
from windlass_base.untrusted_json import parsed

from windlass_operator.records.pods import Pod
from windlass_operator.status.facts import PodFacts, parse

PORT = 8502
TIMEOUT_S = 2.0
ANSWER_MAX = 64 * 1024
PLAIN = {"Accept-Encoding": "identity"}  # a few packed bytes could unfold to any size
PODS_MAX = 8  # of one service; more would only say the same


@dataclass(frozen=True, slots=True)
class Running:
    """A pod that can be asked."""

    name: str
    address: str


def running(pods: Iterable[Pod]) -> list[Running]:
    """Those of the pods that run and have an address, in their order, no more than are asked."""
    found = [
        Running(pod.name, pod.status.pod_ip) for pod in pods if pod.status.phase == "Running" and pod.status.pod_ip
    ]
    return found[:PODS_MAX]


async def pod_facts(http: httpx2.AsyncClient, pods: Iterable[Pod]) -> tuple[PodFacts, ...]:
    """The facts of the pods that run and answer."""
    answers = await asyncio.gather(*(_ask(http, pod) for pod in running(pods)))
    return tuple(answer for answer in answers if answer is not None)


async def first_answer(http: httpx2.AsyncClient, pods: Iterable[Pod]) -> object:
    """The facts, as they came, of the first pod that runs and answers; None when none does."""
    for pod in running(pods):
        told = await _fetch(http, pod)
        if told is not None:
            return told
    return None


async def _ask(http: httpx2.AsyncClient, pod: Running) -> PodFacts | None:
    told = await _fetch(http, pod)
    return None if told is None else parse(pod.name, told)


async def _fetch(http: httpx2.AsyncClient, pod: Running) -> object:
    host = f"[{pod.address}]" if ":" in pod.address else pod.address
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
