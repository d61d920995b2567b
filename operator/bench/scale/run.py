"""`make scale N=1000`: the operator with N LLMServices on a real API server, controllers, scheduler and kwok kubelets.

Prints a table, or JSON with `-o json`; exits 1 when a service does not come up or a restart writes. Aims are printed
beside the figures; a missed one is a figure, not a failure: this machine's processors serve all of the cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from bed import Bed, control_plane, operator, process, running_bed
from kubelets import facts_port
from load import GROUP, Cluster, edit_for, make_namespaces, make_nodes, make_services, reasons
from measure import Process, Samples, quantile_s, scrape, total

APPLY_SECONDS = "windlass_event_to_apply_seconds"
QUIET_S = 10.0
STOPPED = 143
EDIT_S, EDIT_RATE = 20.0, 10.0
AIMS = {1000: {"applied_s": 15, "edit_p99_ms": 250, "rss_mib": 120}, 10_000: {"applied_s": 120}}


@dataclass
class Run:
    """One run: what it uses and the figures so far."""

    services: int
    patience_s: float
    bed: Bed
    cluster: Cluster
    http: httpx2.AsyncClient
    port: int
    health_port: int
    figures: dict[str, Any] = field(default_factory=dict)

    async def until(self, look: Callable[[], Awaitable[bool]], what: str, every_s: float = 0.25) -> float:
        """Seconds until the look is true."""
        begun = time.monotonic()
        while not await look():
            if time.monotonic() - begun > self.patience_s:
                raise TimeoutError(f"{what}: not within {self.patience_s:.0f} s")
            await asyncio.sleep(every_s)
        return time.monotonic() - begun

    async def samples(self) -> Samples:
        """The operator's metrics now."""
        return await scrape(self.http, self.port)

    async def up(self) -> bool:
        """Whether the operator is ready."""
        try:
            return (await self.http.get(f"http://127.0.0.1:{self.health_port}/readyz")).status_code == httpx2.codes.OK
        except httpx2.HTTPError:
            return False

    async def applied(self) -> bool:
        """Whether every service has its Deployment and, after it, its Service."""
        return (
            await self.cluster.count("/apis/apps/v1/deployments") >= self.services
            and await self.cluster.count("/api/v1/services") >= self.services
        )

    async def running(self) -> bool:
        """Whether every service says Running."""
        rows = await self.cluster.items(f"{GROUP}/llmservices")
        self.figures["reasons"] = reasons(rows, "Ready")
        return self.figures["reasons"].get("Running", 0) == self.services

    async def quiet(self) -> bool:
        """Whether the operator has written nothing for a while."""
        before = total(await self.samples(), "windlass_writes_total")
        await asyncio.sleep(QUIET_S)
        return before == total(await self.samples(), "windlass_writes_total")


async def measure(run: Run) -> None:
    """All phases, one after another; each leaves its figures in `run.figures`."""
    await make_namespaces(run.cluster)
    await make_nodes(run.cluster, run.services)
    command, env = operator(run.bed, run.port, run.health_port)
    with ExitStack() as stack:
        alive = stack.enter_context(process(command, run.bed.folder / "operator.log", env))
        run.figures["start_s"] = await run.until(run.up, "the operator is ready")
        await _burst(run, alive)
        await _rest(run, alive)
        await _edits(run, alive)
    with process(command, run.bed.folder / "operator.log", env) as alive:
        await _restart(run, alive)


async def _burst(run: Run, alive: Process) -> None:
    begun = time.monotonic()
    before = await run.samples()
    creation = asyncio.create_task(make_services(run.cluster, run.services))
    creation.add_done_callback(lambda _: run.figures.update(created_s=time.monotonic() - begun))
    await run.until(run.applied, "all planned and applied")
    run.figures["applied_s"] = time.monotonic() - begun
    await creation
    await run.until(run.running, "all running", every_s=1.0)
    run.figures["running_s"] = time.monotonic() - begun
    after = await run.samples()
    run.figures |= _latency("burst", before, after)
    run.figures["burst_cpu_s"] = {name: one.cpu_s() for name, one in run.bed.processes.items()}
    run.figures["burst_cpu_s"]["operator"] = alive.cpu_s()


async def _rest(run: Run, alive: Process) -> None:
    await run.until(run.quiet, "no more writes")
    samples, cpu_s = await run.samples(), alive.cpu_s()
    await asyncio.sleep(QUIET_S)
    run.figures["rest_cpu_percent"] = (alive.cpu_s() - cpu_s) / QUIET_S * 100
    run.figures["rss_mib"], run.figures["rss_peak_mib"] = alive.memory_mib(), alive.memory_mib("VmHWM")
    run.figures["reconciles_a_service"] = total(samples, "windlass_reconcile_seconds_count") / run.services
    run.figures["writes_a_service"] = {
        " ".join(value for _, value in labels): value / run.services
        for (name, labels), value in sorted(samples.items())
        if name == "windlass_writes_total"
    }
    run.figures["writes"] = total(samples, "windlass_writes_total")
    run.figures["audited_writes"] = run.bed.audited_writes()


async def _edits(run: Run, alive: Process) -> None:
    before, cpu_s = await run.samples(), alive.cpu_s()
    run.figures["edits"] = await edit_for(run.cluster, run.services, EDIT_S, EDIT_RATE)
    run.figures["edits_late_s"] = await run.until(run.quiet, "all edits taken back")
    after = await run.samples()
    run.figures["edits_healed"] = total(after, "windlass_writes_total") - total(before, "windlass_writes_total")
    run.figures["edit_cpu_percent"] = (alive.cpu_s() - cpu_s) / (EDIT_S + run.figures["edits_late_s"]) * 100
    run.figures |= _latency("edit", before, after)


async def _restart(run: Run, alive: Process) -> None:
    audited = run.bed.audited_writes()

    async def looked_at_all() -> bool:
        try:
            samples = await run.samples()
        except httpx2.HTTPError:
            return False
        return total(samples, "windlass_reconcile_seconds_count") >= run.services

    run.figures["restart_s"] = await run.until(looked_at_all, "all services looked at after a restart")
    run.figures["restart_cpu_s"] = alive.cpu_s()
    await asyncio.sleep(QUIET_S)
    run.figures["restart_writes"] = total(await run.samples(), "windlass_writes_total")
    run.figures["restart_audited_writes"] = run.bed.audited_writes() - audited
    run.figures["restart_rss_mib"] = alive.memory_mib()


def _latency(phase: str, before: Samples, after: Samples) -> dict[str, float | None]:
    shares = {"p50": 0.5, "p99": 0.99}
    found = {name: quantile_s(before, after, APPLY_SECONDS, share) for name, share in shares.items()}
    return {f"{phase}_{name}_ms": None if value is None else value * 1000 for name, value in found.items()}


def table(figures: dict[str, Any], services: int) -> str:
    """The figures as lines, each with its aim where there is one."""
    aims = AIMS.get(services, {})
    lines = []
    for name, value in figures.items():
        if isinstance(value, dict):
            text = ", ".join(f"{key}: {one:.3g}" for key, one in value.items())
        else:
            text = "no figure" if value is None else f"{value:.1f}"
        lines.append(f"{name:<24} {text}" + (f"   (aim: {aims[name]})" if name in aims else ""))
    return "\n".join(lines)


async def _main(options: argparse.Namespace, bed: Bed) -> dict[str, Any]:
    port, health_port = control_plane.free_ports(2)
    async with httpx2.AsyncClient(trust_env=False) as http, facts_port():
        cluster = Cluster.connect(bed.api)
        run = Run(options.services, options.patience, bed, cluster, http, port, health_port)
        run.figures |= {"services": options.services, "processors": os.cpu_count(), "load_before": os.getloadavg()[0]}
        try:
            await measure(run)
        finally:
            await cluster.http.aclose()
    return run.figures


def main() -> int:
    """Run, print, judge."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("services", nargs="?", type=int, default=1000, help="how many LLMServices (default: 1000)")
    words.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    words.add_argument("--patience", type=float, default=480, help="seconds that one phase may take")
    words.add_argument("--folder", type=Path, help="keep data and logs here (default: a temporary folder)")
    options = words.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))  # what was started is stopped on the way out
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-scale-")))
        folder.mkdir(parents=True, exist_ok=True)
        bed = stack.enter_context(running_bed(folder))
        figures = asyncio.run(_main(options, bed))
    print(json.dumps(figures, indent=1) if options.output == "json" else table(figures, options.services))
    wrong = figures["restart_writes"] or figures["restart_audited_writes"]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
