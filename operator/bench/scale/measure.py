"""Reads processes and metrics: memory and processor seconds from /proc, the operator's samples from its own port."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2
from prometheus_client.parser import text_string_to_metric_families

TICKS_A_S = os.sysconf("SC_CLK_TCK")
KIB_A_MIB = 1024


def _cpu_s(place: Path) -> float:
    try:
        fields = place.joinpath("stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_A_S


@dataclass(frozen=True, slots=True)
class Process:
    """One of the run's processes."""

    running: subprocess.Popen[bytes]

    def cpu_s(self) -> float:
        """User and system seconds so far; 0 when it has ended."""
        return _cpu_s(Path(f"/proc/{self.running.pid}"))

    def memory_mib(self, row: str = "VmRSS") -> float:
        """VmRSS now, or VmHWM, the highest so far."""
        lines = Path(f"/proc/{self.running.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(row)) / KIB_A_MIB

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.running.poll() is None


def cpu_s_by_name(operator: Process) -> dict[str, float]:
    """User and system seconds so far of the operator, of this process ("run"), and of its other children by name."""
    us = Path("/proc/self")
    pids = {pid for task in us.glob("task/*/children") for pid in task.read_text().split()}
    others = [Path("/proc", pid) for pid in pids - {str(operator.running.pid)}]
    names = {place.joinpath("comm").read_text().strip(): _cpu_s(place) for place in others}
    return {"operator": operator.cpu_s(), **dict(sorted(names.items())), "run": _cpu_s(us)}


Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(http: httpx2.AsyncClient, port: int) -> Samples:
    """All samples of the operator by name and labels."""
    text = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(samples: Samples, name: str) -> float:
    """The sum over all labels."""
    return sum(value for (its, _), value in samples.items() if its == name)


def value(samples: Samples, name: str, **labels: str) -> float:
    """The sum over all samples that have these labels, at least."""
    return sum(one for (its, has), one in samples.items() if its == name and labels.items() <= dict(has).items())


def quantile_s(before: Samples, after: Samples, name: str, share: float) -> float | None:
    """A quantile of what a histogram saw between two scrapes, interpolated inside its bucket; None without any."""
    rows = []
    for (its, labels), value in after.items():
        if its == f"{name}_bucket":
            rows.append((float(dict(labels)["le"]), value - before.get((its, labels), 0.0)))
    rows.sort()
    if not rows or not rows[-1][1]:
        return None
    wanted, low, below = share * rows[-1][1], 0.0, 0.0
    for high, count in rows:
        if count >= wanted:
            return low if high == float("inf") else low + (high - low) * (wanted - below) / max(count - below, 1e-9)
        low, below = high, count
    return low
