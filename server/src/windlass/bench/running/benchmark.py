"""The plan of a whole benchmark, the results that its folder has, and the measurements that are left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from windlass.bench.running.matrix import Arm, Asked, Step, seed, steps
from windlass.bench.running.servers import NAME
from windlass.bench.running.shares import shares
from windlass.bench.serving import files, prompts
from windlass.bench.serving.command import RESULT
from windlass.bench.serving.counters import Counted
from windlass.bench.serving.load import DataSet, Load, Point
from windlass.bench.serving.record import Record
from windlass.errors import UsageError

PLAN = "plan.json"
COUNTERS = "counters.json"
PROMPTS = "prompts"
PART = ".part"
"""The folder of a measurement that runs; it is renamed when the measurement is complete."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Servers, loads and rounds; `load` has the settings that all loads share."""

    model: Path
    folder: Path
    arms: tuple[Arm, ...]
    asked: tuple[Asked, ...]
    rounds: int
    load: Load
    is_together: bool = False

    @property
    def steps(self) -> list[Step]:
        """The measurements in their order."""
        return steps(self.arms, self.asked, self.rounds, together=self.is_together)

    @property
    def left(self) -> list[Step]:
        """The measurements whose results are not in the folder."""
        return [step for step in self.steps if not (self.folder / step.folder / RESULT).is_file()]

    def place(self, step: Step) -> int:
        """The number of a round and a load; it is the same for all servers."""
        return (step.round - 1) * len(self.asked) + self.asked.index(step.asked)

    def load_of(self, step: Step, url: str) -> Load:
        """The client's load: all servers of a round get the same prompts, and no other round gets them."""
        said = [f"server={step.arm.name}", f"round={step.round}"]
        warm = step.asked.temperature
        return replace(
            self.load,
            server=url,
            model=NAME,
            name=step.arm.name,
            temperature=warm,
            request_rate=float(step.asked.request_rate),
            concurrency=(step.asked.concurrency,) if step.asked.concurrency else (),
            seed=seed(self.load.seed, step.round, self.asked.index(step.asked), len(self.asked)),
            dataset_path=self._prompts(self.place(step)),
            metadata=(*self.load.metadata, *said, *([] if warm is None else [f"temperature={warm:g}"])),
        )

    def warmup_of(self, arm: Arm, url: str) -> Load:
        """Warm a server up with random prompts."""
        return replace(self.load, server=url, model=NAME, name=arm.name)

    def point_of(self, step: Step, folder: str) -> Point:
        """The step as options of the client."""
        return Point(folder, self.load_of(step, "").seed, step.asked.concurrency)

    def _prompts(self, number: int) -> str | None:
        if self.load.dataset_path is None or self.load.dataset is DataSet.TRACE:
            return self.load.dataset_path  # a trace is sent as it is recorded, each time
        return str(self.folder / PROMPTS / f"{number:03d}{self._suffix}")

    @property
    def _suffix(self) -> str:
        return ".json" if self.load.dataset is DataSet.SHAREGPT else ".jsonl"

    def record(self, step: Step) -> Record:
        """A measurement whose result is in the folder."""
        place = self.folder / step.folder
        counted = None
        if (place / COUNTERS).is_file():
            counted = Counted(**json.loads((place / COUNTERS).read_text(encoding="utf-8")))
        return Record(
            self.load_of(step, ""), self.point_of(step, step.folder), files.read_result(place / RESULT), counted
        )

    def records(self) -> list[Record]:
        """The finished measurements, server by server."""
        order = {arm.name: at for at, arm in enumerate(self.arms)}
        have = [step for step in self.steps if (self.folder / step.folder / RESULT).is_file()]
        have.sort(key=lambda step: (order[step.arm.name], self.asked.index(step.asked), step.round))
        return [self.record(step) for step in have]

    def to_dict(self) -> dict[str, object]:
        """The content of plan.json; a benchmark continues in a folder only with the same plan."""
        load = asdict(self.load) | {"server": "", "model": "", "request_rate": None}
        whole = {
            "model": str(self.model),
            "servers": [asdict(arm) for arm in self.arms],
            "loads": [asdict(one) for one in self.asked],
            "rounds": self.rounds,
            "load": load,
        }
        found: dict[str, object] = json.loads(json.dumps(whole))
        return found


def open_folder(benchmark: Benchmark) -> None:
    """Make the folder, or check that it belongs to the same benchmark, which then continues."""
    path = benchmark.folder / PLAN
    if not path.is_file():
        files.make(benchmark.folder)
        _write_prompts(benchmark)
        path.write_text(json.dumps(benchmark.to_dict(), indent=1) + "\n", encoding="utf-8")
        return
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(f"{path} cannot be read; name a new --output-dir") from None
    asked = benchmark.to_dict()
    unlike = [name for name in asked if known.get(name) != asked[name]]
    if unlike:
        raise UsageError(
            f"--output-dir {benchmark.folder} holds a benchmark with other {_and(unlike)}; give the same options to go "
            "on with it, or name a new folder"
        )


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)


def _write_prompts(benchmark: Benchmark) -> None:
    """Write a file of prompts for each round and load; all servers get the same file."""
    load, rounds = benchmark.load, range(1, benchmark.rounds + 1)
    if load.dataset_path is None or load.dataset is DataSet.TRACE:
        return
    steps_of_one = [Step(number, benchmark.arms[0], asked) for number in rounds for asked in benchmark.asked]
    paths = [Path(benchmark.load_of(step, "").dataset_path or "") for step in steps_of_one]
    paths[0].parent.mkdir()
    if load.dataset is DataSet.MULTI_TURN:
        texts = _conversations(load, [step.asked.concurrency for step in steps_of_one])
    else:
        source = Path(load.dataset_path).read_text(encoding="utf-8")
        texts = [share.text for share in shares(load.dataset, source, len(paths), load.num_prompts, load.seed)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")


def _conversations(load: Load, blocks: Sequence[int | None]) -> list[str]:
    talked = prompts.conversations(Path(load.dataset_path or ""))
    many = len(blocks)
    if len(talked) < many:
        raise UsageError(f"--dataset-path holds {len(talked)} conversations for {many} parts; give a larger file")
    parts = [talked[at * len(talked) // many : (at + 1) * len(talked) // many] for at in range(many)]
    return [prompts.conversation_requests(load, part, block) for part, block in zip(parts, blocks, strict=True)]
