"""What the scale run's figures are made from, and how they are printed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from measure import Samples, quantile_s

APPLY_SECONDS = "windlass_event_to_apply_seconds"
AIMS = {1000: {"applied_s": 15, "edit_p99_ms": 250, "rss_mib": 120}, 10_000: {"applied_s": 120}}


def requests_of_one(requests: Iterable[dict[str, Any]], services: int) -> dict[str, float]:
    """Audited requests for each service by verb and resource; watches left out, and what is rarer than one in ten."""
    rows = Counter(f"{row['verb']} {_resource(row['objectRef'])}" for row in requests if row["verb"] != "watch")
    return {what: number / services for what, number in rows.most_common() if number * 10 >= services}


def _resource(ref: dict[str, Any]) -> str:
    return "/".join(ref[part] for part in ("resource", "subresource") if ref.get(part))


def latency(phase: str, before: Samples, after: Samples) -> dict[str, float | None]:
    """Median and 99th percentile from event to apply between two scrapes, in milliseconds."""
    shares = {"p50": 0.5, "p99": 0.99}
    found = {name: quantile_s(before, after, APPLY_SECONDS, share) for name, share in shares.items()}
    return {f"{phase}_{name}_ms": None if one is None else one * 1000 for name, one in found.items()}


def table(figures: dict[str, Any], services: int) -> str:
    """The figures as lines, each with its aim where there is one."""
    aims = AIMS.get(services, {})
    lines = []
    for name, found in figures.items():
        if isinstance(found, dict):
            text = ", ".join(f"{key}: {one:.3g}" for key, one in found.items())
        else:
            text = "no figure" if found is None else found if isinstance(found, str) else f"{found:.1f}"
        lines.append(f"{name:<24} {text}" + (f"   (aim: {aims[name]})" if name in aims else ""))
    return "\n".join(lines)
