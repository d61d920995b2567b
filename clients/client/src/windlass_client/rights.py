"""What a user may do, as the API server says it in a review of its own, which no other program can answer."""

from __future__ import annotations

from dataclasses import dataclass

from windlass_api.objects.reading import dig
from windlass_base.kube.rest import Api

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource; `namespace` in the place of the one that is asked for, "" for all."""

    verb: str
    resource: str
    part: str = ""
    group: str = ""
    namespace: str | None = None
    name: str = ""  # of one object, as its path has it; empty for all


async def is_allowed(api: Api, right: Right, namespace: str) -> bool:
    """Whether the user has the right; namespace "" means all of them."""
    attributes = {
        "namespace": namespace if right.namespace is None else right.namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        "subresource": right.part,
        "name": right.name,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await api.call("POST", REVIEWS, "the user's rights", body=body)
    return dig(answer, "status", "allowed") is True
