"""Pods that the API server does not let in: a quota, a limit range, a policy, a class that does not exist.

Deployments say it in a condition; StatefulSets and Jobs in an Event only. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass_operator.records.pods import Event, Pod
from windlass_operator.records.workloads import Deployment, Job, Workload
from windlass_operator.status.failure import Failure, cut

REFUSALS = (
    (re.compile(r"exceeded quota|failed quota|status unknown for quota|must specify \S+ for:"), "QuotaExceeded"),
    (
        # The last is a LimitRange's default limit beside a larger request.
        re.compile(
            r"(?:maximum|minimum) \S+ (?:usage )?per|is forbidden: \[?maximum|limit to request ratio"
            r"|must be less than or equal to \S+ limit of"
        ),
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
    workload: Workload | Job | None, events: Iterable[Event] = (), pods: Iterable[Pod] = ()
) -> Failure | None:
    """The refusal that holds now: the Deployment's own, else the last Event since the workload's last pod was made.

    There is none while a pod is not over.
    """
    row = workload.condition("ReplicaFailure") if workload else None
    if row is not None and row.holds:
        return refused(row.message)
    pods = tuple(pods)
    if workload is None or not all(pod.is_over for pod in pods):
        return None
    last = max((pod.metadata.creation_timestamp for pod in pods), default="")
    mine = (event for event in events if event.involved_object.uid == workload.uid and event.time >= last)
    about = [event.message for event in mine if event.reason in CREATION_EVENTS]
    return refused(about[-1]) if about else None


def rollout_stuck(deployment: Deployment | None) -> Failure | None:
    """The Deployment's own clock ran out, and nothing else says why."""
    row = deployment.condition("Progressing") if deployment else None
    if row is None or row.reason != "ProgressDeadlineExceeded":
        return None
    return Failure("RolloutStuck", cut(row.message or "the rollout makes no progress"))
