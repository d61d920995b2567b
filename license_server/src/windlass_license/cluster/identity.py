"""Which pod a service account token stands for, and how many GPUs that pod requests. Pure: values in, values out.

The API server judges a token (`callers` asks it); here its answers are read. Nothing that a pod says of itself counts.
"""

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass_license.errors import ReviewError, UnknownCallerError

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


def reviewed(review: object) -> Caller:
    """The pod of a TokenReview; UnknownCallerError when the token is not known or no pod is behind it.

    ReviewError for an answer that is no TokenReview: it says nothing about the token.
    """
    status = _object(_object(review).get("status"))
    authenticated = status.get("authenticated") or False
    if not isinstance(authenticated, bool):
        raise _no_shape()
    if not authenticated:
        raise UnknownCallerError(
            f"the API server refuses the token: {status.get('error') or 'it is not valid'}; {_MOUNT}"
        )
    if AUDIENCE not in _array(status.get("audiences")):
        raise UnknownCallerError(f"the token is for another audience; {_MOUNT}")
    user = _object(status.get("user"))
    namespace, extra = _namespace(str(user.get("username", ""))), _object(user.get("extra"))
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
    if audiences != AUDIENCE and not (isinstance(audiences, list) and AUDIENCE in audiences):
        raise UnknownCallerError(f"the token is for another audience; {_MOUNT}")
    expires_s = _number_of_seconds(claims.get("exp"))
    if expires_s <= now_s:
        raise UnknownCallerError("the token has expired; the kubelet renews the mounted file, read it for each request")
    return expires_s


def pod_uid(pod: object) -> str:
    """The uid of a pod; ReviewError for an answer that is no object of the API server."""
    return str(_object(_object(pod).get("metadata")).get("uid") or "")


def gpus_requested(pod: object) -> int:
    """How many GPUs and MIG devices the containers of a pod get at the same time, as Kubernetes counts them.

    Init containers run one after the other. One that restarts (a sidecar) stays beside the later ones and beside all
    containers. ReviewError for an answer that is no pod.
    """
    spec = _object(_object(pod).get("spec"))
    beside, most = 0, 0
    for row in map(_object, _array(spec.get("initContainers"))):
        most = max(most, beside + _gpus(row))
        if row.get("restartPolicy") == "Always":
            beside += _gpus(row)
    return max(most, beside + sum(_gpus(_object(row)) for row in _array(spec.get("containers"))))


def _gpus(container: Mapping[str, Any]) -> int:
    limits = _object(_object(container.get("resources")).get("limits"))
    return sum(_number(count) for name, count in limits.items() if _is_gpu(name))


def _is_gpu(name: str) -> bool:
    return name in GPU_RESOURCES or name.startswith(MIG_RESOURCES)


def _number(text: object) -> int:
    return int(said) if (said := str(text)).isdecimal() and len(said) < 5 else 0


def _number_of_seconds(number: object) -> float:
    """A time in a token; UnknownCallerError for one that no date has."""
    try:
        seconds = float(number) if isinstance(number, int | float) else math.nan
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise UnknownCallerError(f"the end of the token is no time; {_MOUNT}")
    return seconds


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
    return str(rows[0]) if (rows := _array(values)) else ""


def _object(value: object) -> Mapping[str, Any]:
    """A part of an answer that is an object, or missing."""
    if value is not None and not isinstance(value, Mapping):
        raise _no_shape()
    return value or {}


def _array(value: object) -> list[Any]:
    """A part of an answer that is a list, or missing."""
    if value is not None and not isinstance(value, list):
        raise _no_shape()
    return value or []


def _no_shape() -> ReviewError:
    return ReviewError("the API server's answer about the pod's token has an unknown shape; ask again")
