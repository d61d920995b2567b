"""The phases of a start: out of the engine's log, on the board, in the log line and as metrics."""

import pytest
from windlass.child.output import OutputTail
from windlass.engine.startup import phases
from windlass.engine.startup.preread import Progress
from windlass.supervisor import metrics
from windlass.supervisor.board import EngineFacts, FactsBoard

LOG = "(EngineCore pid=8) INFO 11-21 17:00:00 [core.py:134] "
LINES = (
    (12.0, f"{LOG}Initializing a V1 LLM engine (v0.32.0) with config: …"),
    (12.5, f"{LOG}Starting to load model /data/model..."),
    (13.0, f"{LOG}Initializing model took 0.5 seconds"),
    (20.0, f"{LOG}Loading weights took 6.90 seconds"),
    (20.5, f"{LOG}Model loading took 14.2 GiB memory and 7.1 seconds"),
    (32.0, f"{LOG}init engine (profile, create kv cache, warmup model) took 11.50 s"),
)


class Clock:
    """Seconds in the hands of the test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def started() -> dict:
    """The facts of a start whose every second is known."""
    clock = Clock()
    board = FactsBoard("qwen", EngineFacts("vllm", "0.32.0", ()), clock)
    clock.now = 2.0
    board.enter(phases.ENGINE)
    for second, line in LINES:
        clock.now = second
        board.note_output(line)
        if second == 13.0:
            board.set_preread(Progress("done", 1, 100, 100, 9.0))
    clock.now = 35.0
    board.enter(phases.SERVING)
    clock.now = 99.0
    return board.to_dict()


def test_phases_of_a_start(started: dict) -> None:
    """Each step has its seconds, the first line of a step counts, and the whole engine has its own row."""
    assert started["phases"] == [
        {"phase": "license", "seconds": 2.0},
        {"phase": "engine-imports", "seconds": 10.5},
        {"phase": "prefetch", "seconds": 9.0},
        {"phase": "engine-weights", "seconds": 7.5},
        {"phase": "engine-warmup", "seconds": 12.0},
        {"phase": "engine", "seconds": 33.0},
    ]
    assert started["startup"]["seconds"] == 35.0


def test_lines_of_another_phase_are_not_steps() -> None:
    """What the engine prints while it serves or fails is no step of its start."""
    board = FactsBoard("", EngineFacts("vllm", "", ()), Clock())
    board.note_output(LINES[1][1])
    assert board.to_dict()["phases"] == []


def test_summary(started: dict) -> None:
    """One line for the log."""
    assert phases.summary(started).startswith("serving after 35.0 s: license 2.0 s, engine-imports 10.5 s, prefetch")


def test_metrics(started: dict) -> None:
    """The same as metrics: every sample has its help and type."""
    text = metrics.render(started)
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert samples['windlass_startup_phase_seconds{phase="engine-weights"}'] == "7.5"
    assert (samples["windlass_serving"], samples["windlass_preread_bytes"]) == ("1", "100")
    names = {name.partition("{")[0] for name in samples}
    assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == names


def test_output_tells_whole_lines() -> None:
    """A line that comes in pieces is heard once."""

    class Nowhere:
        def write(self, _: bytes) -> None: ...
        def flush(self) -> None: ...

    heard: list[str] = []
    tail = OutputTail(Nowhere(), heard.append)
    for piece in (b"Loading wei", b"ghts took 1 s\nnext", b"\n\n"):
        tail.feed(piece)
    assert heard == ["Loading weights took 1 s", "next"]
