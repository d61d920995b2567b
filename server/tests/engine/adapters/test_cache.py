"""Merged checkpoints are made once, whole or not at all."""

import signal
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from windlass.engine.adapters import cache, merge
from windlass.engine.adapters.model import Asked, Merge, Want
from windlass.engine.adapters.plan import decide
from windlass.engine.adapters.read import look
from windlass.errors import ModelError
from windlass_sizing.settings.lora_modules import Given
from windlass_testbed.waiting import HANG_S


@pytest.fixture
def plan(tmp_path: Path, disk) -> Merge:
    disk.base(tmp_path / "base", *({f"model.{name}.weight": disk.numbers(8, 4)} for name in "qv"))
    halves = {}
    for name in "qv":
        stem = f"base_model.model.model.{name}.lora_"
        halves |= {f"{stem}A.weight": disk.numbers(2, 4), f"{stem}B.weight": disk.numbers(8, 2)}
    disk.adapter(tmp_path / "x", halves)
    return planned(tmp_path)


def planned(tmp_path: Path) -> Merge:
    asked = Asked(str(tmp_path / "base"), given=(Given("x", str(tmp_path / "x")),), merge="x")
    adapters, base = look(asked)
    made = decide(adapters, Want(("m",), base, merge="x", cache=str(tmp_path / "cache"))).merge
    assert made is not None
    return made


class Said(list):
    def __call__(self, sentence: str) -> None:
        self.append(sentence)


@pytest.fixture
def said() -> Said:
    return Said()


def test_made_once(plan: Merge, said: Said) -> None:
    """The second start finds it."""
    cache.ensure(plan, said)
    marks = {path.name: path.lstat().st_mtime_ns for path in Path(plan.target).iterdir()}
    cache.ensure(plan, said)
    assert marks == {path.name: path.lstat().st_mtime_ns for path in Path(plan.target).iterdir()}
    assert [sentence.split(": ", 1)[1][:16] for sentence in said] == ["2 tensors merged", "merged already, "]
    assert cache.is_whole(Path(plan.target))


def test_nothing_to_merge(said: Said) -> None:
    """Most starts."""
    cache.ensure(None, said)
    assert said == []


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda t: (t / "model-00001-of-00002.safetensors").write_bytes(b"x"), id="cut"),
        pytest.param(lambda t: (t / "model-00001-of-00002.safetensors").unlink(), id="gone"),
        pytest.param(lambda t: (t / cache.MANIFEST).unlink(), id="no-manifest"),
        pytest.param(lambda t: (t / cache.MANIFEST).write_text("{"), id="broken-manifest"),
        pytest.param(lambda t: (t / cache.MANIFEST).write_text('{"files": {}}'), id="empty-manifest"),
        pytest.param(
            lambda t: (t / "tokenizer.json").unlink() or (t / "tokenizer.json").symlink_to("/nope"), id="link"
        ),
    ],
)
def test_a_damaged_one_is_made_again(plan: Merge, said: Said, damage, disk) -> None:
    """Whatever happened to it meanwhile."""
    cache.ensure(plan, said)
    target = Path(plan.target)
    good = disk.load(target / "model-00001-of-00002.safetensors")
    damage(target)
    assert not cache.is_whole(target)
    cache.ensure(plan, said)
    assert cache.is_whole(target)
    again = disk.load(target / "model-00001-of-00002.safetensors")
    assert {name: values.tobytes() for name, values in good.items()} == {
        name: values.tobytes() for name, values in again.items()
    }


def test_flipped_bytes_are_noticed(plan: Merge, said: Said) -> None:
    """A file that was written to is not the one that was left, even of the same size."""
    cache.ensure(plan, said)
    file = Path(plan.target) / "model-00002-of-00002.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert not cache.is_whole(Path(plan.target))


KILLED = """
import sys
from pathlib import Path
from windlass.engine.adapters import cache, merge
sys.path.insert(0, sys.argv[2])
from test_cache import planned
write = merge._write_index
def stuck(*_):
    print("stuck", flush=True)
    sys.stdin.read()
    write(*_)
merge._write_index = stuck
cache.ensure(planned(Path(sys.argv[1])), print)
"""


def test_killed_in_the_middle(plan: Merge, said: Said, tmp_path: Path) -> None:
    """Nothing half-done is ever seen under the final name; the next start clears it away and makes it whole."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stuck\n"
        target = Path(plan.target)
        left = [path.name for path in target.parent.glob(f"{target.name}*{cache.PART}")]
        assert (len(left), target.exists()) == (1, False)
        process.send_signal(signal.SIGKILL)
    assert [path.name for path in target.parent.glob(f"{target.name}*{cache.PART}")] == left
    cache.ensure(plan, said)
    assert cache.is_whole(target)
    assert sorted(path.name for path in target.parent.iterdir()) == [target.name, f"{target.name}.lock"]


def test_stop_on_request(plan: Merge, tmp_path: Path) -> None:
    """SIGTERM ends a merge at once, and takes what it had written with it."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANG_S) == cache.TOLD_TO_STOP
    assert [path.name for path in Path(plan.target).parent.iterdir()] == [f"{Path(plan.target).name}.lock"]


def test_two_at_once(plan: Merge, tmp_path: Path) -> None:
    """One merges, the other waits for it and finds it done; the first goes on when the other says that it waits."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == "stuck\n"
        said = Said()

        def say(sentence: str) -> None:
            said(sentence)
            first.stdin.close()

        cache.ensure(plan, say)
    assert [sentence.split(": ")[-1].split(",")[0] for sentence in said] == ["waiting for it", "merged already"]


def test_a_failure_leaves_nothing(plan: Merge, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk in the middle of it, and what to do."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(merge, "_write_index", full)
    with pytest.raises(ModelError, match="cannot hold the merged weights: No space left on device; set WINDLASS_CACHE"):
        cache.ensure(plan, said)
    assert [path.name for path in Path(plan.target).parent.iterdir()] == [f"{Path(plan.target).name}.lock"]


def test_room_is_looked_at_first(plan: Merge, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is written."""
    usage = namedtuple("usage", "total used free")(10, 10, 1000)
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ModelError, match=r"merging writes 0\.00 GiB into .*, where 0\.00 GiB are free; set WINDLASS_C"):
        cache.ensure(plan, said)


def test_a_place_that_cannot_be_made(plan: Merge, said: Said, tmp_path: Path) -> None:
    """The sentence names the variable that moves it."""
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(ModelError, match=r"cannot hold the merged weights: .*; set WINDLASS_CACHE"):
        cache.ensure(plan, said)


def test_progress_is_reported(plan: Merge, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every few seconds, never for each block."""
    monkeypatch.setattr(cache, "REPORT_EVERY_S", 0.0)
    cache.ensure(plan, said)
    assert said[0].startswith(f'adapter "x" into {plan.base}: 0.00 of 0.00 GiB written')


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"WINDLASS_CACHE": "/c", "HOME": "/h"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/windlass"),
        ({"HOME": "/h"}, "/h/.cache/windlass"),
        ({}, "/tmp/.cache/windlass"),
    ],
)
def test_where_it_is_kept(environment: dict[str, str], expected: str) -> None:
    """The variable, the user's cache, home."""
    assert expected == cache.root(environment)
