"""The JSON of `/v1/leases`: what a pod may send, what it is answered, and the description of both.

Bodies are parsed from bytes, before the framework makes objects of them: a hostile one costs what its length does.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from pydantic import Field as Bounds
from pydantic.alias_generators import to_camel

from windlass_license.cluster.identity import Caller
from windlass_license.rules.devices import DEVICE_PATTERN
from windlass_license.rules.model import Holder, LeaseRequest, Refusal
from windlass_license.service import Answer

Name = Annotated[str, StringConstraints(max_length=253)]
Device = Annotated[str, StringConstraints(max_length=128, pattern=DEVICE_PATTERN)]
DEVICES_MAX = 64
"""Devices of one pod: a node has at most 16 GPUs of up to seven MIG slices, and a pod of slices takes a few."""
_PLACES_NAMED = 8


class BadRequestError(Exception):
    """The request is not understood; the text names the fields."""

    reason = "BadRequest"


class TooLargeError(Exception):
    """The body is larger than any sensible request."""

    reason = "TooLarge"


class HolderBody(BaseModel):
    """The pod that asks; fields added by later clients are ignored."""

    uid: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    namespace: Name = ""
    pod: Name = ""
    service: Name = ""


class LeaseBody(BaseModel):
    """The body of `POST /v1/leases`."""

    gpus: Annotated[list[Device], Bounds(min_length=1, max_length=DEVICES_MAX)]
    holder: HolderBody
    nonce: Annotated[str, StringConstraints(max_length=64, pattern=r"^[0-9a-f]*$")] = ""
    """Chosen anew for each request; a signed answer repeats it, so that no answer can be shown twice."""


class PodBody(BaseModel):
    """The pod that an answer is for, as the server knows it."""

    namespace: str
    pod: str
    uid: str


class GrantedBody(BaseModel):
    """The answer to a pod that may run."""

    model_config = ConfigDict(alias_generator=to_camel)

    state: Literal["granted", "renewed"]
    lease: str
    ttl_seconds: int
    grace_seconds: int
    expires: str | None
    expired: bool
    message: str
    gpus: list[str] | None = None
    nonce: str | None = None
    at: str | None = None
    pod: PodBody | None = None


class RefusedBody(BaseModel):
    """The answer to a pod that may not run (now)."""

    model_config = ConfigDict(alias_generator=to_camel)

    state: Literal["refused"]
    reason: Refusal
    message: str
    gpus: list[str]
    nonce: str | None = None
    at: str | None = None
    pod: PodBody | None = None
    limit: int | None = None
    in_use: int | None = None
    holders: int | None = None
    stops_serving: bool | None = None
    """With `Expired`: true where the license forbids serving after its end; a serving pod ends then."""


class ProblemBody(BaseModel):
    """A request that was not decided."""

    reason: str
    message: str


def parse_lease(body: bytes, caller: Caller | None = None) -> tuple[LeaseRequest, str]:
    """The request in a body and its nonce; `caller` is who asks, whatever it says. BadRequestError for nonsense."""
    try:
        asked = LeaseBody.model_validate_json(body)
    except ValidationError as error:
        raise BadRequestError(explain((row["loc"], row["msg"]) for row in error.errors())) from error
    said = asked.holder
    if caller is None:
        holder = Holder(said.namespace, said.pod, said.uid, said.service)
        return LeaseRequest(tuple(asked.gpus), holder), asked.nonce
    holder = Holder(caller.namespace, caller.pod, caller.uid, said.service)
    return LeaseRequest(tuple(asked.gpus), holder, caller.gpus), asked.nonce


def statement(request: LeaseRequest, nonce: str, now: datetime) -> dict[str, Any]:
    """What an answer repeats of a request with a nonce, so that a signature binds the one to the other."""
    if not nonce:
        return {}
    holder = request.holder
    pod = {"namespace": holder.namespace, "pod": holder.pod, "uid": holder.uid}
    return {"gpus": request.gpus, "nonce": nonce, "at": now.isoformat(timespec="milliseconds"), "pod": pod}


def explain(errors: Iterable[tuple[Sequence[int | str], str]]) -> str:
    """Name the fields that are wrong, in one sentence instead of a list."""
    rows = [f"{'.'.join(map(str, place)) or 'body'}: {what}" for place, what in islice(errors, _PLACES_NAMED + 1)]
    more = "; and more" if len(rows) > _PLACES_NAMED else ""
    return f"the request is not understood: {'; '.join(rows[:_PLACES_NAMED])}{more}"


def answer_json(answer: Answer, ttl_s: int, about: dict[str, Any]) -> bytes:
    """The body for a verdict: the lease when there is one, else the reason and the GPUs it is about.

    `about` is the request's `statement`; a refusal's `gpus` are the GPUs that stand in the way.
    """
    verdict, facts = answer.verdict, dict[str, Any]()
    if answer.lease is None:
        facts = {"state": verdict.state, "reason": verdict.reason, "message": verdict.message, "gpus": verdict.gpus}
        if verdict.usage is not None:
            usage = verdict.usage
            facts |= {"limit": usage.limit, "inUse": usage.in_use, "holders": usage.holders}
        if verdict.stops_serving:
            facts["stopsServing"] = True
    else:
        facts = {
            "state": verdict.state,
            "lease": answer.lease.id,
            "ttlSeconds": ttl_s,
            "graceSeconds": answer.grace_s,
            "expires": verdict.expires.isoformat() if verdict.expires else None,
            "expired": verdict.expired,
            "message": verdict.message,
        }
    return json.dumps(facts | about | facts, ensure_ascii=False, separators=(",", ":")).encode()
