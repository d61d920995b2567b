"""What a serving pod says of itself on its facts port, parsed with suspicion: a pod may run any image.

Pure; `cluster/facts.py` does the HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from windlass_operator.status import reasons
from windlass_operator.status.conditions import FALSE, TRUE, Verdict, no, unknown, yes
from windlass_operator.status.failure import Failure

TEXT_MAX = 1024
PHASES_MAX = 16
TOKENS_MAX = 2**53
GIB_MAX = 10**6
SECONDS_MAX = 10**9
PROMPTS = ("promptTokens", "gpuTokens", "hostTokens")
EXPIRES_SOON = timedelta(days=30)
PHASE_WORDS = {
    "model": "reads the model's files",
    "license": "asks for its license",
    "prefetch": "reads the weights ahead",
    "group": "waits for the other members of its replica",
    "engine": "loads the engine",
    "first-chat": "asks itself a first chat",
    "serving": "warms up",
    "failed": "has failed",
}


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts of one pod, bounded and typed."""

    pod: str
    phase: str
    phases: tuple[tuple[str, float], ...] = ()
    license_state: str = ""
    license_message: str = ""
    license_reason: str = ""
    license_expires: datetime | None = None
    weights_gib: str = ""
    kv_gib: str = ""
    kv_tokens: int = 0
    failure_message: str = ""
    stall: str = ""
    """How its engine hangs."""
    prompts: tuple[int, int, int] = (0, 0, 0)
    """Tokens of all prompts, and of these the tokens found on the GPU and in host memory."""

    def doing(self) -> str:
        """What the pod does now, in words."""
        why = f": {self.failure_message}" if self.failure_message else ""
        return f"pod {self.pod} {PHASE_WORDS.get(self.phase, 'starts')}{why}"


def parse(pod: str, data: object) -> PodFacts | None:
    """Facts out of the JSON that the pod sent; None when it is not ours."""
    if not isinstance(data, Mapping) or data.get("version") != 1:
        return None
    license_ = data.get("license")
    license_ = license_ if isinstance(license_, Mapping) else {}
    engine = data.get("engine")
    engine = engine if isinstance(engine, Mapping) else {}
    tokens = engine.get("kvTokens")
    failure = data.get("failure")
    failure = failure if isinstance(failure, Mapping) else {}
    return PodFacts(
        pod=pod,
        phase=_text(data.get("phase")),
        phases=tuple(_phases(data.get("phases"))),
        license_state=_text(license_.get("state")),
        license_message=_text(license_.get("message")),
        license_reason=_text(license_.get("reason")),
        license_expires=_instant(license_.get("expires")),
        weights_gib=_gib(engine.get("weightsGiB")),
        kv_gib=_gib(engine.get("kvGiB")),
        kv_tokens=min(max(tokens, 0), TOKENS_MAX) if isinstance(tokens, int) else 0,
        prompts=_prompts(data.get("prefixCache")),
        failure_message=_text(failure.get("message")),
        stall=_text(data.get("stalled")),
    )


def _prompts(value: object) -> tuple[int, int, int]:
    """All zeros for anything but three counts, of which the last two are no more than the first."""
    found = [value.get(key) for key in PROMPTS] if isinstance(value, Mapping) else []
    counts = [one for one in found if isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= TOKENS_MAX]
    if len(counts) != len(PROMPTS) or counts[1] + counts[2] > counts[0]:
        return (0, 0, 0)
    return counts[0], counts[1], counts[2]


def _text(value: object) -> str:
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def _gib(value: object) -> str:
    """A figure as the status writes it; empty for anything else."""
    return f"{value:.2f}" if _is_number(value, GIB_MAX) and value else ""


def _is_number(value: object, most: float) -> bool:
    """Neither a truth value nor NaN, and within what can be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _instant(value: object) -> datetime | None:
    """A time with its zone, else nothing."""
    try:
        instant = datetime.fromisoformat(_text(value).replace("Z", "+00:00"))
    except ValueError:
        return None
    return instant if instant.tzinfo else None


def _phases(rows: object) -> Iterable[tuple[str, float]]:
    """Each phase once: it is the key of the status' list."""
    seen: dict[str, float] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, Mapping) and _text(row.get("phase")) and _is_number(row.get("seconds"), SECONDS_MAX):
            seen[_text(row["phase"])[:64]] = float(row["seconds"])
    return list(seen.items())[:PHASES_MAX]


def stalled(facts: Iterable[PodFacts], failure: Failure | None) -> Failure | None:
    """The failure, told as the pod tells it where its server does not answer because the engine hangs."""
    if failure is None or failure.reason != "NotAnswering":
        return failure
    one = next((one for one in facts if one.stall and f"pod {one.pod} " in failure.message), None)
    return replace(failure, reason="EngineStalled", message=f"pod {one.pod}: {one.stall}") if one else failure


def startup(facts: Iterable[PodFacts]) -> list[dict[str, Any]] | None:
    """`status.startup` of the pod that came furthest; None when no pod said anything."""
    furthest = max(facts, key=lambda one: (len(one.phases), one.pod), default=None)
    if furthest is None or not furthest.phases:
        return None
    return [{"phase": phase, "seconds": f"{seconds:.1f}"} for phase, seconds in furthest.phases]


def measured(facts: Iterable[PodFacts], before: str) -> dict[str, Any] | None:
    """`status.plan.measured` of the pod that was asked `before`, else of the first that tells; None when none does."""
    told = [one for one in facts if one.kv_tokens or one.weights_gib]
    one = min(told, key=lambda one: (one.pod != before, not one.kv_tokens, one.pod), default=None)
    if one is None:
        return None
    texts = {"weightsGib": one.weights_gib, "kvCacheGib": one.kv_gib, "pod": one.pod}
    tokens = {"kvTokens": one.kv_tokens} if one.kv_tokens else {}
    return {**{key: text for key, text in texts.items() if text}, **tokens}


def prefix_cache(facts: Iterable[PodFacts]) -> dict[str, int] | None:
    """`status.prefixCache`, in whole percent so that it seldom changes; None before the first prompt."""
    asked, gpu, host = (sum(counts) for counts in zip((0, 0, 0), *(one.prompts for one in facts), strict=True))
    if not asked:
        return None
    gpu_percent = round(100 * gpu / asked)
    host_percent = min(round(100 * host / asked), 100 - gpu_percent)
    rest = 100 - gpu_percent - host_percent
    return {"gpuPercent": gpu_percent, "hostPercent": host_percent, "computedPercent": rest}


# The license server's words for a refusal, and ours; any other is a refusal of these GPUs.
REFUSALS = {"NoLicense": "LicenseMissing", "LimitReached": "LicenseLimitReached", "Expired": "LicenseExpired"}


def license_verdict(facts: Iterable[PodFacts], now: str) -> Verdict | None:
    """The worst that any pod says of its license; None when none says anything. `now` is RFC 3339."""
    seen = tuple(facts)
    for state, verdict in LICENSE_STATES:
        said = [one for one in seen if one.license_state == state]
        if said:
            return verdict(said, datetime.fromisoformat(now.replace("Z", "+00:00")))
    return None


def _refused(said: Sequence[PodFacts], _now: datetime) -> Verdict:
    """The server's own words: they name GPUs and holders, and what to do."""
    reason = REFUSALS.get(said[0].license_reason, "Unlicensed")
    return Verdict(FALSE, reason, said[0].license_message or reasons.explain(reason, reasons.row(reason).meaning))


def _granted(said: Sequence[PodFacts], now: datetime) -> Verdict:
    """When it ends; within 30 days a warning whose words change once a day, and an Event with them."""
    ends = [one.license_expires for one in said if one.license_expires]
    if not ends:
        return yes("LicenseGranted", said[0].license_message)
    first = min(ends)
    if first - now > EXPIRES_SOON:
        return yes("LicenseGranted", f"granted until {first.isoformat()}")
    days = (first - now).days
    when = "within a day" if days < 1 else f"in {days} day{'s' if days > 1 else ''}"
    # No word of single pods: the Event must not come once for each.
    words = f"the license ends {when}, at {first.isoformat()}"
    return Verdict(TRUE, "LicenseExpiring", reasons.explain("LicenseExpiring", words))


# Worst first: one refused pod is what the user must hear of.
LICENSE_STATES: tuple[tuple[str, Callable[[Sequence[PodFacts], datetime], Verdict]], ...] = (
    ("refused", _refused),
    ("unreachable", lambda said, _: Verdict(FALSE, "LicenseServerUnreachable", said[0].license_message)),
    ("expired", lambda said, _: no("LicenseExpired", said[0].license_message)),
    ("waiting", lambda said, _: unknown("LicensePending", said[0].license_message)),
    ("granted", _granted),
    ("notRequired", lambda *_: yes("LicenseNotRequired")),
)
