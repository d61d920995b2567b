"""Which pod a service account token stands for, and how many GPUs that pod requests. Pure: values in, values out.

The API server judges a token (`callers` asks it); here its answers are read. Nothing that a pod says of itself counts.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass_license.errors import UnknownCallerError

AUDIENCE = "windlass-license-server"
"""Of the tokens: one that was made for another service, the API server's own for example, is refused."""
GPU_RESOURCES = frozenset({"nvidia.com/gpu", "nvidia.com/gpu.shared"})
MIG_RESOURCES = "nvidia.com/mig-"
"""The names that count as GPUs, and the beginning of those of MIG devices: NVIDIA's device plugin hands these out.

Other names count something else: HAMi's nvidia.com/gpumem and gpucores are the MiB and the percent of a GPU.
"""
TOKEN_CHARACTERS = 8192
"""A projected token has about 1,000 characters."""
_USER = "system:serviceaccount:"
_POD_UID, _POD_NAME = "authentication.kubernetes.io/pod-uid", "authentication.kubernetes.io/pod-name"
_MOUNT = f'mount a projected service account token with audience "{AUDIENCE}" into the pod'


@dataclass(frozen=True, slots=True)
class Caller:
    """The pod behind a token; `gpus` is how many devices it may lease, None any number."""

    namespace: str
    pod: str
    uid: str
    gpus: int | None = None


def review_request(token: str) -> dict[str, Any]:
    """The TokenReview to create."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    }


def reviewed(review: Mapping[str, Any]) -> Caller:
    """The pod of a TokenReview; UnknownCallerError when the token is not known or no pod is behind it."""
    status = review.get("status") or {}
    if not status.get("authenticated"):
        raise UnknownCallerError(
            f"the API server refuses the token: {status.get('error') or 'it is not valid'}; {_MOUNT}"
        )
    if AUDIENCE not in (status.get("audiences") or ()):
        raise UnknownCallerError(f"the token is for another audience; {_MOUNT}")
    user = status.get("user") or {}
    namespace, extra = _namespace(str(user.get("username", ""))), user.get("extra") or {}
    pod, uid = _first(extra.get(_POD_NAME)), _first(extra.get(_POD_UID))
    if not (namespace and pod and uid):
        raise UnknownCallerError(f"the token belongs to no pod; {_MOUNT}")
    return Caller(namespace, pod, uid)


def check_plausible(token: str, now_s: float) -> float:
    """When a token that the API server might accept expires; UnknownCallerError for one that it cannot accept.

    Nothing is proved here. It spares the API server what has no chance.
    """
    if not token or len(token) > TOKEN_CHARACTERS:
        raise UnknownCallerError(f"the request has no usable token in its Authorization header; {_MOUNT}")
    claims = _claims(token)
    audiences = claims.get("aud")
    if AUDIENCE not in ([audiences] if isinstance(audiences, str) else audiences or ()):
        raise UnknownCallerError(f"the token is for another audience; {_MOUNT}")
    expires = claims.get("exp")
    if not isinstance(expires, int | float) or expires <= now_s:
        raise UnknownCallerError("the token has expired; the kubelet renews the mounted file, read it for each request")
    return float(expires)


def gpus_requested(pod: Mapping[str, Any]) -> int:
    """How many GPUs and MIG devices the containers of a pod get at the same time, as Kubernetes counts them.

    Init containers run one after the other. One that restarts (a sidecar) stays beside the later ones and beside all
    containers.
    """
    spec = pod.get("spec") or {}
    beside, most = 0, 0
    for row in spec.get("initContainers") or []:
        most = max(most, beside + _gpus(row))
        if row.get("restartPolicy") == "Always":
            beside += _gpus(row)
    return max(most, beside + sum(_gpus(row) for row in spec.get("containers") or []))


def _gpus(container: Mapping[str, Any]) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return sum(_number(count) for name, count in limits.items() if _is_gpu(name))


def _is_gpu(name: str) -> bool:
    return name in GPU_RESOURCES or name.startswith(MIG_RESOURCES)


def _number(text: object) -> int:
    return int(said) if (said := str(text)).isdecimal() and len(said) < 5 else 0


def _claims(token: str) -> Mapping[str, Any]:
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, IndexError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise UnknownCallerError(f"the Authorization header holds no service account token; {_MOUNT}")
    return claims


def _namespace(user: str) -> str:
    return user.removeprefix(_USER).partition(":")[0] if user.startswith(_USER) else ""


def _first(values: object) -> str:
    return str(values[0]) if isinstance(values, Sequence) and values else ""
