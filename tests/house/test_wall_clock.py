"""The check of what waits on a clock in tests: seeded faults are found, sound places are not."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "wall_clock.py"


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wall_clock", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = _tool()
FAULTS = {
    "time.sleep(0.2)": "pause",
    "await asyncio.sleep(0.05)": "pause",
    "sleep(PAUSE_S)": "pause",
    "assert time.monotonic() - began < 5": "measurement",
    "assert time.perf_counter() < end": "measurement",
    "took = time.monotonic() - began\nassert took < 5": "measurement",
    "await asyncio.wait_for(done.wait(), 5)": "short limit",
    "await asyncio.wait_for(done.wait(), timeout=SHORT_S)": "short limit",
    "thread.join(10)": "short limit",
    "socket.create_connection(place, 5)": "short limit",
    "httpx.get(url, timeout=2.5)": "short limit",
    "async with asyncio.timeout(20): pass": "short limit",
}
SOUND = (
    "await asyncio.sleep(0)",
    "time.sleep(0.2)  # clock: the disk is slow, and nothing is decided by it",
    "await asyncio.wait_for(\n    done.wait(), 5  # clock: nobody sets it\n)",
    "assert lease.renewed_at - began_at < 5",
    "took = time.monotonic() - began\nprint(took)",
    "await asyncio.wait_for(done.wait(), 60)",
    "assert ', '.join(names) == 'a, b'",
    "httpx.get(url, timeout=LONG_S)",
    "assert process.wait() == 0",
)


def in_a_test(text: str) -> str:
    lines = "\n".join(f"    {line}" for line in text.splitlines())
    return f"SHORT_S = 1.5\nLONG_S = 90\nasync def test_it():\n{lines}\n"


@pytest.mark.parametrize(("text", "kind"), FAULTS.items(), ids=FAULTS)
def test_a_seeded_fault_is_found(text: str, kind: str) -> None:
    line = in_a_test(text).rstrip().count("\n") + 1
    assert tool.offences("tests/test_x.py", in_a_test(text)) == [("tests/test_x.py", line, kind)]


@pytest.mark.parametrize("text", SOUND)
def test_a_sound_place_is_not(text: str) -> None:
    assert tool.offences("tests/test_x.py", in_a_test(text)) == []


def test_the_message_says_where_and_what_to_do() -> None:
    (found,) = tool.offences("tests/test_x.py", "import time\ntime.sleep(3)\n")
    assert (
        str(found) == "tests/test_x.py:2: pause: wait for an event with windlass_testbed.waiting, or pass the clock in"
    )


def test_every_suite_is_looked_at_and_no_program() -> None:
    files = set(tool.test_files())
    assert {"server/tests/conftest.py", "tests/engine/conftest.py", "tests/house/test_wall_clock.py"} <= files
    assert not [path for path in files if "/src/" in path or Path(path).name.startswith("run_")]
