"""Measures the servers of a benchmark in turns. However it ends, it stops the servers and keeps the results."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from windlass.bench.running import report, servers
from windlass.bench.running.benchmark import COUNTERS, PART, Benchmark
from windlass.bench.running.matrix import Arm, Step
from windlass.bench.running.predicted import Planned
from windlass.bench.running.servers import Server, Wanted
from windlass.bench.serving import command, files, run
from windlass.bench.serving.client import Client
from windlass.bench.serving.load import Point
from windlass.bench.serving.record import Record, warnings
from windlass.bench.serving.run import Target
from windlass.errors import ServerError

Say = Callable[[str], None]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Fleet:
    """The running servers; a context manager that stops them."""

    wanted: Wanted
    say: Say
    living: dict[str, Server] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        """Stop all servers; signals are ignored meanwhile, since an interrupted end would leave servers behind."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        self.keep(())

    def begin(self, arms: Iterable[Arm]) -> list[Server]:
        """Start the servers that do not run, and wait; a server that ends is reported and left out from then on."""
        fresh = [arm for arm in arms if arm.name not in self.living and arm.name not in self.failed]
        if not fresh:
            return []
        self.say(f"starting {', '.join(arm.name for arm in fresh)}")
        started = servers.start(fresh, self.wanted)
        self.living |= {server.arm.name: server for server in started}
        for name, sentence in servers.wait(started, self.wanted.limit_s, self.say).items():
            self.fail(name, sentence)
        return [server for server in started if server.arm.name in self.living]

    def keep(self, arms: Iterable[Arm]) -> None:
        """Stop all servers but these."""
        kept = {arm.name for arm in arms}
        ended = [name for name in self.living if name not in kept]
        servers.stop([self.living[name] for name in ended])
        for name in ended:
            del self.living[name]

    def fail(self, name: str, sentence: str) -> None:
        """Stop a server and never start it again."""
        self.failed[name] = sentence
        self.say(sentence)
        servers.stop([self.living.pop(name)])


def measure(benchmark: Benchmark, wanted: Wanted, seconds: float | None, say: Say) -> list[Record]:
    """Measure until nothing is left or the time is over; return a record of each finished measurement."""
    began, left = time.monotonic(), benchmark.left
    say(f"{len(left)} of {len(benchmark.steps)} measurements are left")
    with Client() as client, Fleet(wanted, say) as fleet:
        run.warn_of_alike(client, benchmark.load, say)
        if benchmark.is_together:
            arms = dict.fromkeys(step.arm for step in left)
            for server in fleet.begin(arms):
                _warm_up(benchmark, server, client)
        for number, step in enumerate(left, 1):
            if seconds is not None and time.monotonic() - began > seconds:
                say(f"{len(left) - number + 1} measurements are left for the next time; the same command goes on")
                break
            _step(benchmark, step, fleet, client)
        failed = list(fleet.failed.values())
    records = report.write(benchmark, planned(benchmark.model))
    if failed:
        raise ServerError(f"{len(failed)} servers failed, and the tables lack them; the first: {failed[0]}")
    return records


def planned(model: Path) -> Planned | None:
    """The model and this machine's first GPU; None for a directory that cannot be planned for."""
    from windlass_sizing.errors import SizingError
    from windlass_sizing.files.source import read_facts
    from windlass_sizing.placement import gpus

    from windlass.license import nvml

    cards = [card.name for one in nvml.gpus() if (card := gpus.find(one.name))]
    try:
        return Planned(read_facts(model), cards[0] if cards else "")
    except SizingError:
        return None


def _step(benchmark: Benchmark, step: Step, fleet: Fleet, client: Client) -> None:
    if not benchmark.is_together:
        fleet.keep([step.arm])
        for fresh in fleet.begin([step.arm]):
            _warm_up(benchmark, fresh, client)
    server = fleet.living.get(step.arm.name)
    if server is None:
        return
    fleet.say(f"round {step.round}, {step.asked.folder}: {step.arm.name}")
    try:
        record = _measured(benchmark, step, server, client)
    except ServerError as error:
        fleet.fail(step.arm.name, str(error))
        return
    for sentence in warnings(record):
        fleet.say(f"warning: {sentence}")
    report.write(benchmark)


def _warm_up(benchmark: Benchmark, server: Server, client: Client) -> None:
    load = benchmark.warmup_of(server.arm, server.url)
    if load.warmup:
        most = max((asked.concurrency or load.warmup for asked in benchmark.asked), default=load.warmup)
        target = Target(benchmark.folder, f"{server.url}/metrics")
        run.drive(client, command.warmup(load, Point("", load.seed, most)), target)


def _measured(benchmark: Benchmark, step: Step, server: Server, client: Client) -> Record:
    """Measure into a folder that is renamed when the result is complete, so an interrupted measurement runs again."""
    servers.must_run(server)
    part = f"{step.folder}{PART}"
    for name in (part, step.folder):
        _clear(benchmark.folder / name)
    load, point = benchmark.load_of(step, server.url), benchmark.point_of(step, part)
    words = command.argv(load, point, str(benchmark.folder / part))
    record = run.measure(client, load, point, words, Target(benchmark.folder, f"{server.url}/metrics"))
    servers.must_run(server)
    if not record.completed:
        raise ServerError(f"{step.arm.name} answered no request; the load generator's words are above")
    if record.counted is not None:
        text = json.dumps(record.counted.to_dict(), indent=1) + "\n"
        (benchmark.folder / part / COUNTERS).write_text(text, encoding="utf-8")
    files.append_command(benchmark.folder, [sys.executable, *words])
    (benchmark.folder / part).rename(benchmark.folder / step.folder)
    return replace(record, point=benchmark.point_of(step, step.folder))


def _clear(folder: Path) -> None:
    """Delete the files of an interrupted measurement."""
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
