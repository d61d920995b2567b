"""The JSON of `/v1/leases`: what a pod may send, and what it is answered. Pydantic stays in this file."""

from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints
from pydantic import Field as Bounds

from windlass_license.model import Holder, LeaseRequest
from windlass_license.service import Answer

Name = Annotated[str, StringConstraints(max_length=253)]
Device = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[\x21-\x7e]+$")]


class HolderBody(BaseModel):
    """The pod that asks; fields added by later clients are ignored."""

    uid: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    namespace: Name = ""
    pod: Name = ""
    service: Name = ""


class LeaseBody(BaseModel):
    """The body of `POST /v1/leases`."""

    gpus: Annotated[list[Device], Bounds(min_length=1, max_length=1024)]
    holder: HolderBody

    def request(self) -> LeaseRequest:
        """The same as a value of the domain."""
        holder = Holder(self.holder.namespace, self.holder.pod, self.holder.uid, self.holder.service)
        return LeaseRequest(tuple(self.gpus), holder)


def answer_json(answer: Answer, ttl_s: int) -> dict[str, Any]:
    """The body for a verdict: the lease when there is one, else the reason and the GPUs it is about."""
    verdict = answer.verdict
    if answer.lease is None:
        return {
            "state": verdict.state,
            "reason": verdict.reason,
            "message": verdict.message,
            "gpus": list(verdict.gpus),
        }
    return {
        "state": verdict.state,
        "lease": answer.lease.id,
        "ttlSeconds": ttl_s,
        "graceSeconds": answer.grace_s,
        "expires": verdict.expires.isoformat() if verdict.expires else None,
        "expired": verdict.expired,
        "message": verdict.message,
    }
