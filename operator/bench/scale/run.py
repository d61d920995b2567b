"""`make scale N=1000`: the operator with N LLMServices on a real API server, controllers, scheduler and kwok kubelets.

Prints a table, or JSON with `-o json`, and on stderr how far it is; exits 1 when a service does not come up, a restart
writes or the run is interrupted, with the figures so far. Aims are printed beside the figures; a missed one is a
figure, not a failure: this machine's processors serve all of the cluster.
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
from figures import latency, requests_of_one, table
from kubelets import facts_port
from load import GROUP, Cluster, edit_for, make_namespaces, make_nodes, make_services, reasons
from measure import Process, Samples, cpu_s_by_name, scrape, total, value

WRITES, SERVICES, LOOKS = "windlass_writes_total", "windlass_llmservices", "windlass_reconcile_seconds_count"
QUIET_S = 10.0
LOOK_S = 0.5  # between two looks at how far it is; they cost what they look at
TELL_S = 5.0
ANSWER_S = 60.0  # the operator's metrics share its processor
PATIENCE_S, PATIENCE_A_SERVICE_S = 480.0, 0.5  # of one phase
EDIT_S, EDIT_RATE = 20.0, 10.0


@dataclass
class Run:
    """One run: what it uses and the figures so far."""

    services: int
    patience_s: float
    bed: Bed
    cluster: Cluster
    http: httpx2.AsyncClient
    port: int
    figures: dict[str, Any] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)
    told: float = 0.0
    words: str = ""

    async def until(self, look: Callable[[], Awaitable[bool]], what: str) -> float:
        """Seconds until the look is true."""
        begun = time.monotonic()
        self.tell(f"until {what}")
        while not await look():
            if time.monotonic() - begun > self.patience_s:
                raise TimeoutError(f"{what}: not within {self.patience_s:.0f} s")
            await asyncio.sleep(LOOK_S)
        return time.monotonic() - begun

    def tell(self, words: str) -> None:
        """One line of progress."""
        self.told, self.words = time.monotonic(), words
        print(f"{self.told - self.begun:6.1f} s  {words}", file=sys.stderr, flush=True)

    def fail(self, why: str) -> None:
        """Say in the figures why the run ended, after how long, and how far it was."""
        self.figures["failed"] = f"{why}, after {time.monotonic() - self.begun:.0f} s: {self.words}"

    async def samples(self) -> Samples:
        """The operator's metrics now; now and then they are told, too."""
        found = await scrape(self.http, self.port)
        if time.monotonic() - self.told > TELL_S:
            applied, running = value(found, WRITES, kind="Deployment"), value(found, SERVICES, reason="Running")
            looks = total(found, LOOKS)
            self.tell(f"{applied:.0f} of {self.services} applied, {running:.0f} running, {looks:.0f} looks")
        return found

    async def up(self) -> bool:
        """Whether the operator is ready."""
        try:
            return (await self.http.get(f"http://127.0.0.1:{self.port}/readyz")).status_code == httpx2.codes.OK
        except httpx2.HTTPError:
            return False

    async def applied(self) -> bool:
        """Whether every service has its Deployment and its Service; the API server is asked when it may be so."""
        samples = await self.samples()
        return (
            min(value(samples, WRITES, kind=kind) for kind in ("Deployment", "Service")) >= self.services
            and await self.cluster.count("/apis/apps/v1/deployments") >= self.services
            and await self.cluster.count("/api/v1/services") >= self.services
        )

    async def running(self) -> bool:
        """Whether every service says Running; the API server is asked when it may be so."""
        if value(await self.samples(), SERVICES, reason="Running") < self.services:
            return False
        rows = await self.cluster.items(f"{GROUP}/llmservices")
        self.figures["reasons"] = reasons(rows, "Ready")
        return self.figures["reasons"].get("Running", 0) == self.services

    async def quiet(self) -> bool:
        """Whether the operator has written nothing for a while."""
        before = total(await self.samples(), WRITES)
        await asyncio.sleep(QUIET_S)
        return before == total(await self.samples(), WRITES)


async def measure(run: Run) -> None:
    """All phases, one after another; each leaves its figures in `run.figures`."""
    await make_namespaces(run.cluster)
    await make_nodes(run.cluster, run.services)
    command, env = operator(run.bed, run.port, 0)
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
    before, cpu_before = await run.samples(), cpu_s_by_name(alive)
    creation = asyncio.create_task(make_services(run.cluster, run.services))
    creation.add_done_callback(lambda _: run.figures.update(created_s=time.monotonic() - begun))
    try:
        await run.until(run.applied, "all planned and applied")
        run.figures["applied_s"] = time.monotonic() - begun
        await creation
        await run.until(run.running, "all running")
        run.figures["running_s"] = time.monotonic() - begun
    finally:
        creation.cancel()
    after = await run.samples()
    run.figures |= latency("burst", before, after)
    spent = {name: seconds - cpu_before.get(name, 0.0) for name, seconds in cpu_s_by_name(alive).items()}
    run.figures["cpu_ms_a_service"] = {name: seconds * 1000 / run.services for name, seconds in spent.items()}


async def _rest(run: Run, alive: Process) -> None:
    await run.until(run.quiet, "no more writes")
    samples, cpu_s = await run.samples(), alive.cpu_s()
    await asyncio.sleep(QUIET_S)
    run.figures["rest_cpu_percent"] = (alive.cpu_s() - cpu_s) / QUIET_S * 100
    run.figures["rss_mib"], run.figures["rss_peak_mib"] = alive.memory_mib(), alive.memory_mib("VmHWM")
    run.figures["looks_a_service"] = total(samples, LOOKS) / run.services
    run.figures["writes"], run.figures["audited_writes"] = total(samples, WRITES), len(run.bed.writes())
    run.figures["requests_a_service"] = requests_of_one(run.bed.requests(), run.services)


async def _edits(run: Run, alive: Process) -> None:
    run.tell(f"{EDIT_RATE:.0f} edits a second for {EDIT_S:.0f} s")
    before, cpu_s = await run.samples(), alive.cpu_s()
    run.figures["edits"] = await edit_for(run.cluster, run.services, EDIT_S, EDIT_RATE)
    run.figures["edits_late_s"] = await run.until(run.quiet, "all edits taken back")
    after = await run.samples()
    run.figures["edits_healed"] = total(after, WRITES) - total(before, WRITES)
    run.figures["cpu_ms_an_edit"] = (alive.cpu_s() - cpu_s) * 1000 / run.figures["edits"]
    run.figures |= latency("edit", before, after)


async def _restart(run: Run, alive: Process) -> None:
    audited = len(run.bed.writes())

    async def looked_at_all() -> bool:
        try:
            samples = await run.samples()
        except httpx2.HTTPError:
            return False
        return total(samples, LOOKS) >= run.services

    run.figures["restart_s"] = await run.until(looked_at_all, "all services looked at after a restart")
    run.figures["restart_cpu_s"] = alive.cpu_s()
    await asyncio.sleep(QUIET_S)
    run.figures["restart_writes"] = total(await run.samples(), WRITES)
    run.figures["restart_audited_writes"] = len(run.bed.writes()) - audited
    run.figures["restart_rss_mib"] = alive.memory_mib()


async def _main(options: argparse.Namespace, bed: Bed) -> dict[str, Any]:
    """All figures; those so far when a phase takes too long, the cluster does not answer or someone interrupts."""
    (port,) = control_plane.free_ports(1)
    async with httpx2.AsyncClient(trust_env=False, timeout=ANSWER_S) as http, facts_port():
        cluster = Cluster.connect(bed.api)
        patience_s = options.patience or PATIENCE_S + PATIENCE_A_SERVICE_S * options.services
        run = Run(options.services, patience_s, bed, cluster, http, port)
        run.figures |= {"services": options.services, "processors": os.cpu_count(), "load_before": os.getloadavg()[0]}
        try:
            await measure(run)
        except (TimeoutError, httpx2.HTTPError) as error:
            run.fail(str(error) or type(error).__name__)
        except asyncio.CancelledError:
            run.fail("interrupted")
        finally:
            await cluster.http.aclose()
    return run.figures


def main() -> int:
    """Run, print, judge."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("services", nargs="?", type=int, default=1000, help="how many LLMServices (default: 1000)")
    words.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    words.add_argument("--patience", type=float, help="seconds that one phase may take (default: by the number)")
    words.add_argument("--folder", type=Path, help="keep data and logs here (default: a temporary folder)")
    options = words.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # which cancels what is awaited
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-scale-")))
        folder.mkdir(parents=True, exist_ok=True)
        bed = stack.enter_context(running_bed(folder))
        figures = asyncio.run(_main(options, bed))
    print(json.dumps(figures, indent=1) if options.output == "json" else table(figures, options.services))
    wrong = ("failed", "restart_writes", "restart_audited_writes")
    return 1 if any(figures.get(name) for name in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
