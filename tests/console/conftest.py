"""Tests of the console's pages in a real Chromium, against a stand-in of the back end on this machine.

What needs a cluster is tested with the back end itself; here the pages alone answer.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

STAND_IN = Path(__file__).with_name("stand_in.py")
ROOT = Path(__file__).parents[2]
AXE = ROOT / "console/node_modules/axe-core/axe.min.js"
DESKTOP = {"width": 1360, "height": 860}
WAIT_MS = 15_000


class Console:
    """The console in a browser, and what a person does with it again and again."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address

    def go(self, place: str) -> None:
        """Open a place of the console, as `services/chat/qwen2-7b`."""
        self.page.goto(f"{self.address}#/{place}")

    def rows(self) -> Locator:
        """The rows of the list that are drawn."""
        return self.page.locator(".services .all [role=row]")

    def field(self, path: str) -> Locator:
        """The form's field of a path of the resource."""
        return self.page.locator(f'[data-path="{path}"]').first

    def yaml(self) -> str:
        """The YAML beside the form."""
        return self.page.get_by_label("YAML").input_value()

    def type_yaml(self, text: str) -> None:
        """Replace the YAML beside the form."""
        self.page.get_by_label("YAML").fill(text)

    def take_known_model(self) -> None:
        """Fill the form so far that a plan can be made."""
        self.page.get_by_label("The model of an existing service").select_option(index=1)
        self.field("metadata.name").fill("tried")

    def until(self, expression: str) -> None:
        """Wait for a script's expression; Playwright's own way evaluates inside the page, which the policy refuses."""
        late = time.monotonic() + 30
        while not self.page.evaluate(expression):
            assert time.monotonic() < late, f"never true: {expression}"
            time.sleep(0.02)

    def become(self, *wishes: tuple[str, str, str]) -> None:
        """Services get another status: namespace, name, status."""
        rows = [{"namespace": place, "name": name, "status": status} for place, name, status in wishes]
        answer = httpx.post(f"{self.address}become", json=rows, headers={"X-Windlass-Console": "1"})
        assert answer.status_code == httpx.codes.OK

    def findings(self) -> list[str]:
        """What axe finds serious on the page as it is now."""
        script = AXE.read_text(encoding="utf-8")
        self.page.evaluate(f"() => {{ {script}; }}")
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
        return [f"{one['id']}: {[node['target'] for node in one['nodes']]}" for one in serious]


class Visit:
    """Browser contexts that remember what went wrong in them: console errors, refusals by the policy, exceptions."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.complaints: list[str] = []

    def open(self, address: str, place: str = "services", **options: Any) -> Console:
        """Open a place of the console in a new context, as a person would."""
        context = self._browser.new_context(**({"viewport": DESKTOP, "locale": "en-GB"} | options))
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda line: line.type in ("error", "warning") and self.complaints.append(line.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        console = Console(page, address)
        console.go(place)
        return console

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if not program:
        pytest.fail("there is no chromium on PATH: apt-get install -y --no-install-recommends chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


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
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens pages; afterwards nothing may have complained that the test did not expect."""
    visit = Visit(browser)
    yield visit
    visit.close()
    assert visit.complaints == []


@pytest.fixture
def console(stand_in: Callable[..., str], visit: Visit) -> Console:
    """The console of a user who may do everything, at its list of 24 services."""
    console = visit.open(stand_in())
    expect(console.rows().first).to_be_visible()
    return console


def texts(language: str) -> dict[str, str]:
    """The table of a language, read by node as the browser reads it."""
    path = ROOT / f"console/src/windlass_console/pages/text/{language}.js"
    script = f"import({json.dumps(path.as_uri())}).then((m) => process.stdout.write(JSON.stringify(m.default)))"
    done = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
