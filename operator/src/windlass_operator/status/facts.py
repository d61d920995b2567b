"""What a serving pod says of itself on its facts port, parsed with suspicion: a pod may run any image.

Pure; `cluster/facts.py` does the HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_operator.status.conditions import Verdict, no, unknown, yes

TEXT_MAX = 1024
PHASES_MAX = 16
PHASE_WORDS = {
    "license": "asks for its license",
    "prefetch": "reads the weights ahead",
    "engine": "loads the engine",
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

    def doing(self) -> str:
        """What the pod does now, in words."""
        return f"pod {self.pod} {PHASE_WORDS.get(self.phase, 'starts')}"


def parse(pod: str, data: object) -> PodFacts | None:
    """Facts out of the JSON that the pod sent; None when it is not ours."""
    if not isinstance(data, Mapping) or data.get("version") != 1:
        return None
    license_ = data.get("license")
    license_ = license_ if isinstance(license_, Mapping) else {}
    return PodFacts(
        pod=pod,
        phase=_text(data.get("phase")),
        phases=tuple(_phases(data.get("phases"))),
        license_state=_text(license_.get("state")),
        license_message=_text(license_.get("message")),
    )


def _text(value: object) -> str:
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def _phases(rows: object) -> Iterable[tuple[str, float]]:
    """Each phase once: it is the key of the status' list."""
    seen: dict[str, float] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, Mapping) and _text(row.get("phase")) and isinstance(row.get("seconds"), int | float):
            seen[_text(row["phase"])[:64]] = float(row["seconds"])
    return list(seen.items())[:PHASES_MAX]


def startup(facts: Iterable[PodFacts]) -> list[dict[str, Any]] | None:
    """`status.startup` of the pod that came furthest; None when no pod said anything."""
    furthest = max(facts, key=lambda one: (len(one.phases), one.pod), default=None)
    if furthest is None or not furthest.phases:
        return None
    return [{"phase": phase, "seconds": f"{seconds:.1f}"} for phase, seconds in furthest.phases]


# Worst first: one refused pod is what the user must hear of.
LICENSE_STATES: tuple[tuple[str, Callable[[str], Verdict]], ...] = (
    ("refused", lambda text: no("Unlicensed", text)),
    ("unreachable", lambda text: no("LicenseServerUnreachable", text)),
    ("expired", lambda text: no("LicenseExpired", text)),
    ("waiting", lambda text: unknown("LicensePending", text)),
    ("granted", lambda text: yes("LicenseGranted", text)),
    ("notRequired", lambda _: yes("LicenseNotRequired")),
)


def license_verdict(facts: Iterable[PodFacts]) -> Verdict | None:
    """The worst that any pod says of its license; None when none says anything."""
    by_state = {one.license_state: one for one in facts}
    for state, verdict in LICENSE_STATES:
        if state in by_state:
            return verdict(by_state[state].license_message)
    return None
