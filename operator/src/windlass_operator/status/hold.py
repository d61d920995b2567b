"""When a crash loop is ended: a cause that only a change mends is tried three times, a group as often as its spec says.

A service that is held has no pods, so its GPUs are free. What is remembered stands in an annotation of an object of the
service, so that a restarted operator knows it; a change of the spec, or of the retry annotation, ends it. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.objects.reading import name_of, seconds_between
from windlass_api.objects.records import mapped
from windlass_base.untrusted_json import parsed

from windlass_operator.records.base import Record, living
from windlass_operator.records.pods import ContainerStatus, Pod
from windlass_operator.records.workloads import REVISION_LABEL, Deployment, StatefulSet
from windlass_operator.status import reasons
from windlass_operator.status.children import Children
from windlass_operator.status.failure import Failure
from windlass_operator.status.failures import diagnose, diagnose_service
from windlass_operator.status.replicas import Group, groups

HELD_ANNOTATION = "serving.windlass.dev/held"
RETRY_ANNOTATION = "serving.windlass.dev/retry"
RESTARTS_MAX = 2  # of a cause that is sure to come again
COUNT_MAX = 2**31
LOOP_RUN_S = 3600.0  # a server that ran for longer than this before it ended is in no loop
TEMPLATE_LABEL = "pod-template-hash"  # Kubernetes' own, of a Deployment's pods
NOT_A_CHANGE = ("replicas", "suspend")  # parts of the spec that mend nothing


@dataclass(frozen=True, slots=True)
class Hold:
    """A service that was stopped: why, since when (RFC 3339), and the digest of the spec that it holds for."""

    reason: str
    message: str
    since: str
    digest: str
    count: int = 0
    container: str = ""
    exit_code: int = 0
    excerpt: str = ""

    def to_text(self) -> str:
        """The annotation's text; one spelling only."""
        return json.dumps(asdict(self), sort_keys=True)

    def failure(self) -> Failure:
        """The hold as the failure that the status tells."""
        return Failure(self.reason, self.message, self.container, self.exit_code, self.excerpt, self.count)


def digest_of(raw: Mapping[str, Any]) -> str:
    """Names what a hold is for: the spec without defaults and what mends nothing, and the retry annotation.

    A later release has more defaults, which the API server fills into stored objects.
    """
    spec = _stored(raw)
    try:
        asked = LLMServiceSpec.model_validate(spec).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    except ValueError:
        asked = _before_defaults(spec)
    return _digest(raw, {key: value for key, value in asked.items() if key not in NOT_A_CHANGE})


def _is_for(hold: Hold, raw: Mapping[str, Any], digest: str) -> bool:
    """Whether the hold is of this spec, also as operators before this digest named it."""
    spec = _stored(raw)
    return hold.digest in (digest, _digest(raw, spec), _digest(raw, _before_defaults(spec)))


def _stored(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mapped(raw.get("spec")).items() if key not in NOT_A_CHANGE}


def _before_defaults(spec: dict[str, Any]) -> dict[str, Any]:
    """The stored spec without the place that the API server fills in since spec.engine.prefixOffload exists."""
    engine = spec.get("engine")
    if not isinstance(engine, dict) or engine.get("prefixOffload") != {"enabled": False}:
        return spec
    return {**spec, "engine": {key: value for key, value in engine.items() if key != "prefixOffload"}}


def _digest(raw: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    retry = (raw["metadata"].get("annotations") or {}).get(RETRY_ANNOTATION)
    return hashlib.sha256(json.dumps([spec, retry], sort_keys=True).encode()).hexdigest()[:16]


def remembered(keeper: Record | None) -> Hold | None:
    """The hold in the annotation of the object that keeps it; None when there is none, or one of another version."""
    said = parsed(keeper.annotation(HELD_ANNOTATION) if keeper else "")
    try:
        hold = Hold(**said)
    except TypeError:
        return None
    numbers, texts = (hold.count, hold.exit_code), (hold.reason, hold.message, hold.since, hold.container, hold.excerpt)
    right = all(type(one) is int and abs(one) < COUNT_MAX for one in numbers) and all(type(one) is str for one in texts)
    return hold if right and hold.count >= 0 and hold.reason in reasons.TABLE else None


def decide(
    name: str,
    previous: Hold | None,
    failure: Failure | None,
    digest: str,
    now: str,
    group: tuple[int, int] | None = None,
) -> Hold | None:
    """The hold in force. `group` is how often the worst group was restarted, and how often it may be."""
    if previous is not None and previous.digest == digest:
        return previous
    if failure is None or failure.exit_code is None:
        return None
    restarts, allowed = (failure.count, RESTARTS_MAX)
    if group is not None and group[0] >= group[1]:
        restarts, allowed = group
    elif reasons.row(failure.reason).retryable:
        return None
    if restarts < allowed:
        return None
    again = f"kubectl annotate llm {name} {RETRY_ANNOTATION}=$(date +%s) --overwrite"
    times = f"{restarts} restart{'' if restarts == 1 else 's'}"
    message = f"stopped after {times}: {failure.message}; change the spec or: {again}"
    return Hold(failure.reason, message, now, digest, restarts, failure.container, failure.exit_code, failure.excerpt)


def of_service(raw: Mapping[str, Any], children: Children, max_restarts: int, now: str) -> Hold | None:
    """The hold of an LLMService as it was read; `max_restarts` is spec.deployment.maxRestarts, `now` is RFC 3339."""
    name, digest, previous = name_of(raw), digest_of(raw), remembered(children.service)
    if previous is not None and _is_for(previous, raw, digest):
        return replace(previous, digest=digest)
    looping = [group for group in groups(children) if _loops(group, children.stateful_sets)]
    if looping:
        failure = diagnose_service(children, False, now)
        restarts = max(_restarts(pod) for group in looping for pod in group.pods)
        return decide(name, None, failure, digest, now, (restarts, max_restarts))
    pods = worth_judging(children.deployment, children.pods)
    return decide(name, None, diagnose(pods, children.events, now), digest, now) if pods else None


def _loops(group: Group, sets: Iterable[StatefulSet]) -> bool:
    """A group of the present revision whose members are down and ended soon after they began."""
    wanted = next((row.status.update_revision for row in sets if row.name == group.name), "")
    of_now = [pod for pod in group.pods if pod.label(REVISION_LABEL) in ("", wanted)]
    return bool(of_now) and not group.ready and any(_is_down(pod) for pod in of_now)


def _restarts(pod: Pod) -> int:
    return max((row.restart_count for row in pod.status.container_statuses), default=0)


def worth_judging(deployment: Deployment | None, pods: Iterable[Pod]) -> list[Pod]:
    """The unready pods of the present revision whose container is down now: an earlier spec's crashes do not count."""
    if deployment is None or deployment.is_behind or not deployment.status.updated_replicas:
        return []
    rows = [pod for pod in living(pods) if pod.label(TEMPLATE_LABEL)]
    same = [pod for pod in rows if pod.label(TEMPLATE_LABEL) == rows[0].label(TEMPLATE_LABEL)]
    if any(pod.is_ready for pod in same):
        return []
    return [pod for pod in same if _is_down(pod)]


def _is_down(pod: Pod) -> bool:
    return any(_ended_soon(row) for row in (*pod.status.init_container_statuses, *pod.status.container_statuses))


def _ended_soon(row: ContainerStatus) -> bool:
    """Down now, after a run that was short: what ended after days of work is tried again."""
    waits = row.waits_for == "CrashLoopBackOff"
    last = row.state.terminated or (row.last_state.terminated if waits else None)
    if not last:
        return waits
    return (
        not last.started_at or not last.finished_at or seconds_between(last.started_at, last.finished_at) < LOOP_RUN_S
    )
