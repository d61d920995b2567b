"""What fails while the machine stands still runs once more; what fails by itself does not."""

import subprocess
import sys

import pytest

CONFTEST = """
from windlass_testbed.standstill import Standstill

def pytest_configure(config):
    config.pluginmanager.register(Standstill(shortest_s=1))
"""
STOP = """
import os, pathlib, signal, subprocess, time
import pytest

STARTS = pathlib.Path(__file__).with_name("starts")

def stand_still():
    subprocess.Popen(["sh", "-c", f"sleep 3; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)

def starts():
    found = int(STARTS.read_text()) if STARTS.exists() else 0
    STARTS.write_text(str(found + 1))
    return found
"""
STOPPED = (
    STOP
    + """
@pytest.fixture(scope="module")
def server():
    if not starts():
        stand_still()
        pytest.fail("the engine ended")

def test_first(server):
    assert STARTS.read_text() == "2"

def test_second(server):
    assert STARTS.read_text() == "2"
"""
)
KILLED = (
    STOP
    + """
@pytest.fixture(scope="module")
def server():
    number = starts()
    yield number
    if not number:
        pytest.fail("it was gone")

def test_first(server):
    stand_still()

def test_second(server):
    assert server == 1
"""
)
HANGS = (
    STOP
    + """
@pytest.mark.timeout(6)
def test_hangs():
    if not starts():
        stand_still()
        raise AssertionError("at first")
    time.sleep(60)
"""
)
FAULTY = """
import pathlib

def test_faulty():
    runs = pathlib.Path(__file__).with_name("runs")
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    raise AssertionError
"""


@pytest.fixture
def outcome(tmp_path):
    def run(text, *flags):
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_it.py").write_text(text)
        words = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path))
        command = [sys.executable, "-m", "pytest", *words, *flags, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    return run


@pytest.mark.parametrize("flags", [(), ("-n", "1")])
def test_what_a_standstill_broke_runs_again_with_new_fixtures(outcome, flags):
    text = outcome(STOPPED, *flags)
    assert "2 passed" in text
    assert "ran again: test_it.py::test_first: the machine stood still" in text


def test_what_broke_unseen_is_made_again_for_the_next_test(outcome):
    """The server was lost while a test ran that did not need it any more; its own end fails, too."""
    text = outcome(KILLED)
    assert "2 passed" in text
    assert "ran again: test_it.py::test_second" in text


def test_the_second_run_has_a_time_limit(outcome):
    text = outcome(HANGS)
    assert "1 failed" in text
    assert "before, it failed with" in text
    assert "Timeout" in text


def test_a_fault_runs_once(outcome, tmp_path):
    text = outcome(FAULTY)
    assert "1 failed" in text
    assert "ran again" not in text
    assert (tmp_path / "runs").read_text() == "x"
