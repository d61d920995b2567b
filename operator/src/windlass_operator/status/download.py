"""How far the download Job is, read out of its pods, and what its facts become in `.status.download`.

The Job has several owners, one for each service that wants the same; each reads it for itself. As with the inspection,
the last message is copied into an annotation of the Job, so that it outlives the pod. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from windlass_api.names import DOWNLOAD
from windlass_base.untrusted_json import parsed

from windlass_operator.records.base import living, owned_by
from windlass_operator.records.pods import Event, Pod
from windlass_operator.records.workloads import Job
from windlass_operator.status import reasons
from windlass_operator.status.failure import cut
from windlass_operator.status.failures import diagnose
from windlass_operator.status.jobs import again_in_s, given_up, held_open, instant, refused, terminated

RESULT_ANNOTATION = "serving.windlass.dev/download-result"
FINISHED_ANNOTATION = "serving.windlass.dev/download-finished"
COUNTS = ("bytesDone", "bytesTotal", "bytesPerSecond")
REMAINING = "remainingSeconds"
COUNT_MAX, REMAINING_MAX = 2**62, 2**31 - 1
TEXT_MAX = 2048
RETRY_MAX_S = 1800.0
GIB, MIB = 1 << 30, 1 << 20


class State(Enum):
    """How far the download is."""

    RUNNING = "running"
    STUCK = "stuck"  # its pod cannot start; the kubelet goes on trying by itself
    DONE = "done"
    FAILED = "failed"  # it has given up; a new Job is wanted


@dataclass(frozen=True, slots=True)
class Download:
    """What is known of a download; `text` is the last message as it came."""

    state: State
    reason: str
    message: str
    text: str = ""
    finished_at: str = ""


WAITING = Download(State.RUNNING, "Downloading", "a Job fetches the model from its hub")


def read(job: Job | None, pods: Iterable[Pod], events: Iterable[Event]) -> Download:
    """The state of a Job; a Job that is not there has not begun. A failed pod whose Job tries again is told."""
    if job is None:
        return WAITING
    kept = job.annotation(RESULT_ANNOTATION)
    if kept:
        return parse(kept, instant(job.annotation(FINISHED_ANNOTATION)))
    mine, over = owned_by(pods, job.uid), given_up(job)
    ended = [(pod, one) for pod in living(mine) if (one := terminated(pod, DOWNLOAD)) is not None]
    for pod, one in ended:
        if one.exit_code == 0 or over or held_open((pod,), DOWNLOAD):
            return parse(one.message, one.finished_at or over)
    if over:
        return parse("", over)
    events = tuple(events)
    stuck = refused(job, mine, events, "download.resources") or diagnose(mine, events)
    if stuck is not None and stuck.exit_code is None:
        return Download(State.STUCK, stuck.reason, stuck.message)
    if not ended:
        return WAITING
    last = parse(ended[0][1].message, "")
    return _trying_again(stuck.message if stuck is not None and last.reason == "DownloadFailed" else last.message)


def parse(text: str, finished_at: str) -> Download:
    """The end of a download by its last message; a text that is not ours is a failed download."""
    data = parsed(text)
    if not isinstance(data, Mapping):
        words = cut(text, 512) or "it left no message"
        message = f"the download Job ended without an answer: {words}"
        return Download(State.FAILED, "DownloadFailed", message, text, finished_at)
    if data.get("ok") is True and isinstance(data.get("download"), Mapping):
        return Download(State.DONE, "Downloaded", _summary(data["download"]), text, finished_at)
    reason = reasons.known(str(data.get("reason")), "DownloadFailed")
    message = str(data.get("message") or reasons.row(reason).meaning)[:TEXT_MAX]
    return Download(State.FAILED, reason, message, text, finished_at)


def progress(facts: object) -> dict[str, int]:
    """`.status.download` out of the facts that the pod sent; empty while it knows no size. The pod may say anything."""
    known = _download_facts(facts)
    counts = {key: _count(known.get(key), COUNT_MAX) for key in COUNTS}
    if not counts["bytesTotal"]:
        return {}
    counts["bytesDone"] = min(counts["bytesDone"], counts["bytesTotal"])
    remaining = known.get(REMAINING)
    return {**counts, REMAINING: _count(remaining, REMAINING_MAX)} if isinstance(remaining, int) else counts


def trouble(facts: object) -> str:
    """Why the hub gives nothing at this moment, by the facts that the pod sent; empty while it does."""
    text = _download_facts(facts).get("trouble")
    return cut(text) if isinstance(text, str) else ""


def line(counts: Mapping[str, int]) -> str:
    """The same for people: `1.20 of 14.20 GiB (8 %), 85 MiB/s, 2 min left`; empty when nothing is known."""
    total = counts.get("bytesTotal", 0)
    if not total:
        return ""
    done, speed = counts.get("bytesDone", 0), counts.get("bytesPerSecond", 0)
    words = [f"{done / GIB:.2f} of {total / GIB:.2f} GiB ({100 * done // total} %)"]
    words += [f"{speed // MIB} MiB/s"] if speed >= MIB else []
    left = counts.get(REMAINING)
    return ", ".join([*words, *([f"{_about(left)} left"] if left is not None else [])])


def finished(done: Mapping[str, Any]) -> dict[str, int]:
    """`.status.download` of a download that is done, by what its last message says."""
    total = _count(done.get("bytesTotal"), COUNT_MAX)
    return {"bytesDone": total, "bytesTotal": total, "bytesPerSecond": 0, REMAINING: 0} if total else {}


def retry_in_s(download: Download, failing_since: str, now: str) -> float:
    """Seconds until a failed Job is deleted and made anew, for a secret or a volume that was put right meanwhile.

    The wait grows with the time that the condition has been failing, from one minute to half an hour.
    """
    return again_in_s(download.finished_at, failing_since, now, RETRY_MAX_S)


def _summary(done: Mapping[str, Any]) -> str:
    name, commit = (str(done.get(key) or "")[:256] for key in ("name", "commit"))
    size = _count(done.get("bytesTotal"), COUNT_MAX) / GIB
    return f"{name}{f' at {commit[:12]}' if commit else ''}: {_count(done.get('files'), 10**6)} files, {size:.2f} GiB"


def _download_facts(facts: object) -> Mapping[str, Any]:
    """The download's part of a pod's facts; empty where they are not ours."""
    known = facts.get("download") if isinstance(facts, Mapping) and facts.get("version") == 1 else None
    return known if isinstance(known, Mapping) else {}


def _trying_again(why: str) -> Download:
    """A pod ended with a trouble that may pass: the Job makes the next one."""
    return Download(State.RUNNING, "Downloading", f"the last try ended: {why}"[:TEXT_MAX])


def _about(seconds: int) -> str:
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{-(-seconds // 60)} min" if seconds >= 60 else f"{seconds} s"


def _count(value: object, most: int) -> int:
    return min(value, most) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
