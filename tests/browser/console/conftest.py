"""Tests of the console's pages in a real Chromium, against a stand-in of the back end on this machine.

What needs a cluster is tested with the back end itself; here the pages alone answer.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from windlass_testbed.browsing.chromium import Visit, chromium
from windlass_testbed.browsing.console import DESKTOP, WAIT_MS, Console

STAND_IN = Path(__file__).with_name("stand_in.py")
ROOT = Path(__file__).parents[3]


class StoodInConsole(Console):
    """The console before the stand-in, whose services a test can change."""

    def take_known_model(self) -> None:
        """Fill the form so far that the service can be created."""
        self.page.get_by_label("The model of an existing service").select_option(index=1)
        self.field("metadata.name").fill("tried")

    def become(self, *changes: tuple[str, str, str]) -> None:
        """Services get another status: namespace, name, status."""
        rows = [{"namespace": place, "name": name, "status": status} for place, name, status in changes]
        answer = httpx.post(f"{self.address}become", json=rows, headers={"X-Windlass-Console": "1"})
        assert answer.status_code == httpx.codes.OK


def entered(page: Page, address: str) -> StoodInConsole:
    """The console at its list."""
    console = StoodInConsole(page, address)
    console.go("services")
    return console


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(autouse=True)
def patience() -> None:
    """A busy machine is slow, not broken."""
    expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session")
def processes() -> Iterator[dict[tuple[str, ...], tuple[subprocess.Popen[str], str]]]:
    """One stand-in for each set of options, with its address, for all tests."""
    running: dict[tuple[str, ...], tuple[subprocess.Popen[str], str]] = {}
    yield running
    for process, _ in running.values():
        process.communicate(timeout=30)  # its standard input ends, and so does it


@pytest.fixture
def stand_in(processes: dict[tuple[str, ...], tuple[subprocess.Popen[str], str]]) -> Callable[..., str]:
    """Gives the address of a stand-in of the back end with these options, as fresh as at its start."""

    def start(*options: str) -> str:
        if options not in processes:
            command = [sys.executable, str(STAND_IN), *options]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdout
            processes[options] = (process, process.stdout.readline().strip())
        address = processes[options][1]
        answer = httpx.post(f"{address}begin", headers={"X-Windlass-Console": "1"})
        assert answer.status_code == httpx.codes.OK
        return address

    return start


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit[StoodInConsole]]:
    """Opens pages; afterwards they have shown no error that the test did not expect."""
    visit = Visit(browser, entered, viewport=DESKTOP, locale="en-GB")
    yield visit
    visit.close()
    assert visit.errors == []


@pytest.fixture
def console(stand_in: Callable[..., str], visit: Visit[StoodInConsole]) -> StoodInConsole:
    """The console of a user who may do everything, at its list of 24 services."""
    console = visit.open(stand_in())
    expect(console.rows().first).to_be_visible()
    return console


def texts(language: str) -> dict[str, str]:
    """The table of a language, read by node as the browser reads it."""
    path = ROOT / f"clients/console/src/windlass_console/pages/text/{language}.js"
    script = f"import({json.dumps(path.as_uri())}).then((m) => process.stdout.write(JSON.stringify(m.default)))"
    done = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
