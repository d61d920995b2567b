"""Pods that the API server does not let in: a quota, a limit range, a policy, a class that does not exist.

Deployments say it in a condition; StatefulSets and Jobs in an Event only. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass_api.objects.reading import Object, condition_of, dig, uid_of

from windlass_operator.status.failure import Failure, cut

REFUSALS = (
    (re.compile(r"exceeded quota|failed quota|status unknown for quota|must specify \S+ for:"), "QuotaExceeded"),
    (
        re.compile(r"(?:maximum|minimum) \S+ (?:usage )?per|is forbidden: \[?maximum|limit to request ratio"),
        "LimitRangeExceeded",
    ),
    (re.compile(r"violates PodSecurity"), "PodSecurityForbidden"),
    (re.compile(r"no PriorityClass with name"), "PriorityClassMissing"),
    (re.compile(r"RuntimeClass \S+ not found|runtimeclass\S* \S+ not found", re.I), "RuntimeClassMissing"),
    (re.compile(r"error looking up service account|serviceaccount \S+ not found"), "ServiceAccountMissing"),
    (re.compile(r"failed calling webhook|failed to call webhook"), "WebhookUnavailable"),
    (
        re.compile(r"admission webhook .* denied|ValidatingAdmissionPolicy|denied the request|denied request"),
        "PolicyDenied",
    ),
)
CREATION_EVENTS = ("FailedCreate",)


def refused(words: str) -> Failure:
    """The failure in the API server's words."""
    reason = next((reason for pattern, reason in REFUSALS if pattern.search(words)), "PodsForbidden")
    return Failure(reason, cut(words or "pods cannot be created"))


def creation_refused(
    workload: Object | None, events: Iterable[Object] = (), pods: Iterable[Object] = ()
) -> Failure | None:
    """The refusal that holds now: the Deployment's own, else the last Event of a workload that has no pods."""
    row = condition_of(workload, "ReplicaFailure") if workload else None
    if row is not None and row.get("status") == "True":
        return refused(str(row.get("message") or ""))
    if workload is None or any(True for _ in pods):
        return None
    about = [
        event
        for event in events
        if dig(event, "involvedObject", "uid") == uid_of(workload) and event.get("reason") in CREATION_EVENTS
    ]
    return refused(str(about[-1].get("message") or "")) if about else None


def rollout_stuck(deployment: Object | None) -> Failure | None:
    """The Deployment's own clock ran out, and nothing else says why."""
    row = condition_of(deployment, "Progressing") if deployment else None
    if row is None or row.get("reason") != "ProgressDeadlineExceeded":
        return None
    return Failure("RolloutStuck", cut(str(row.get("message") or "the rollout makes no progress")))
