"""A service as a line of a table and as a tree. Pure: the clock is a parameter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from windlass_api.crd.status import Condition, DownloadStatus, FailureStatus, PrefixCacheStatus
from windlass_client.values import LLMService, Pod, ServiceEvent

from windlass_kubectl.paint import Branch, Paint
from windlass_kubectl.plan_tree import plan_branch

HEADINGS = ("NAME", "MODEL", "READY", "STATUS", "GPUS", "TP", "CONTEXT", "AGE")
EVENTS_SHOWN = 6
EXCERPT_LINES = 12
STYLES = {"True": "good", "False": "bad", "Unknown": "wait"}
# Conditions whose True is no good news, and its style; their False is good news.
NEGATIVE = {"Degraded": "bad", "Outdated": "wait", "OlderFields": "wait"}
NEUTRAL = ("Progressing", "Downloading")
UNITS = ((86400, "d"), (3600, "h"), (60, "m"))
GIB = 1024**3


def row(service: LLMService, now: datetime) -> tuple[str, ...]:
    """A line of the table; the columns are HEADINGS."""
    figures, ready = service.status.in_force or service.status.plan, service.condition("Ready")
    return (
        service.metadata.name,
        service.spec.model.id,
        service.status.ready or "-",
        ready.reason if ready else "-",
        str(figures.gpus) if figures and figures.gpus is not None else "-",
        str(figures.tp) if figures and figures.tp else "-",
        str(figures.max_model_len) if figures and figures.max_model_len else "-",
        age(service.metadata.creation_timestamp, now),
    )


def tree(
    service: LLMService, pods: Sequence[Pod], events: Sequence[ServiceEvent], now: datetime, paint: Paint
) -> Branch:
    """Everything about one service, what is wrong first to be seen."""
    status = service.status
    parts = (
        Branch("conditions", "head", tuple(_condition(one, now, paint) for one in status.conditions))
        if status.conditions
        else Branch("no status yet: is the operator running?", "wait"),
        *([_failure(status.failure)] if status.failure and status.failure.reason else []),
        *([Branch(_download(status.download))] if status.download else []),
        *([plan_branch(status.plan, paint)] if status.plan else []),
        *([Branch(_startup(service))] if status.startup else []),
        *([Branch(_prefix_cache(status.prefix_cache))] if status.prefix_cache else []),
        Branch("pods", "head", tuple(_pod(one, now, paint) for one in pods)) if pods else Branch("no pods"),
        *(
            [Branch("addresses", "head", tuple(Branch(f"{one.name}: {one.url}") for one in status.addresses))]
            if status.addresses
            else []
        ),
        *_events(events, now),
    )
    ready = service.condition("Ready")
    word = ready.reason if ready else "no status"
    where = f"{service.metadata.namespace}/{service.metadata.name}"
    head = f"{where}  {service.spec.model.id}  {word}  {status.ready or '-'}"
    return Branch(head, STYLES.get(ready.status, "") if ready else "wait", parts)


def _condition(one: Condition, now: datetime, paint: Paint) -> Branch:
    style, since = _style(one), age(one.last_transition_time, now)
    is_denied = one.status == "False" and one.type in (*NEGATIVE, *NEUTRAL)
    text = f"not {_as_words(one.type)} ({one.reason}, {since})" if is_denied else f"{one.type} {one.reason} ({since})"
    return Branch(f"{paint.mark(style)} {text}{f': {one.message}' if one.message else ''}", style)


def _as_words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _style(one: Condition) -> str:
    if one.type in NEUTRAL:
        return "dim"
    if one.type in NEGATIVE:
        return {"True": NEGATIVE[one.type], "False": "good"}.get(one.status, "wait")
    return STYLES[one.status]


def _failure(failure: FailureStatus) -> Branch:
    where = f" in {failure.container}" if failure.container else ""
    code = f", exit code {failure.exit_code}" if failure.exit_code is not None else ""
    times = f", {failure.count} times in a row" if failure.count > 1 else ""
    lines = failure.excerpt.strip().splitlines()[-EXCERPT_LINES:]
    return Branch(
        f"failure: {failure.reason}{where}{code}{times}",
        "bad",
        (
            *(Branch(line, "dim") for line in lines),
            *([Branch(f"what to do: {failure.remedy}", "head")] if failure.remedy else []),
        ),
    )


def _download(one: DownloadStatus) -> str:
    done, total = one.bytes_done or 0, one.bytes_total or 0
    size = f" of {total / GIB:.2f} GiB ({100 * done // total} %)" if total else " GiB, size not known yet"
    speed = f", {(one.bytes_per_second or 0) / 1024**2:.1f} MiB/s" if one.bytes_per_second else ""
    left = f", {span(one.remaining_seconds)} left" if one.remaining_seconds is not None else ""
    return f"download: {done / GIB:.2f}{size}{speed}{left}"


def _startup(service: LLMService) -> str:
    return "start: " + ", ".join(f"{one.phase} {one.seconds} s" for one in service.status.startup)


def _prefix_cache(one: PrefixCacheStatus) -> str:
    return (
        f"prompts: {one.gpu_percent} % found on the GPU, {one.host_percent} % in host memory, "
        f"{one.computed_percent} % computed"
    )


def _pod(pod: Pod, now: datetime, paint: Paint) -> Branch:
    style = "good" if pod.ready else "bad" if pod.restarts or pod.phase == "Failed" else "wait"
    words = [
        "ready" if pod.ready else "not ready",
        "being deleted" if pod.deleting else "",
        f"on {pod.node}" if pod.node else "no node yet",
        f"{pod.restarts} restarts" if pod.restarts else "",
        age(pod.created, now),
    ]
    return Branch(f"{paint.mark(style)} {pod.name} {pod.state}: {', '.join(word for word in words if word)}", style)


def _events(events: Sequence[ServiceEvent], now: datetime) -> list[Branch]:
    if not events:
        return []
    rows = tuple(
        Branch(
            f"{age(one.last_time, now)} ago {one.object} {one.reason}{f' ×{one.count}' if one.count > 1 else ''}: "
            f"{one.message}",
            "wait" if one.type == "Warning" else "dim",
        )
        for one in events[-EVENTS_SHOWN:]
    )
    return [Branch("last events", "head", rows)]


def age(instant: str | None, now: datetime) -> str:
    """How long ago an RFC 3339 instant was, as kubectl writes it: 3d4h, 5m10s; `-` for none."""
    try:
        then = datetime.fromisoformat((instant or "").replace("Z", "+00:00"))
    except ValueError:
        return "-"
    return span(max(0, int((now - then).total_seconds())))


def span(seconds: int) -> str:
    """A duration in its two largest units."""
    for size, unit in UNITS:
        if seconds >= size:
            smaller = {"d": (3600, "h"), "h": (60, "m"), "m": (1, "s")}[unit]
            rest = seconds % size // smaller[0]
            return f"{seconds // size}{unit}" + (f"{rest}{smaller[1]}" if rest else "")
    return f"{seconds}s"
