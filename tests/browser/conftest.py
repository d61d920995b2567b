"""Tests of the chat page in a real Chromium, against a real engine that serves the demo model.

`WINDLASS_CHAT_URL` is the address of a running server with the page at `/chat`; the make target sets it.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

FRONT = Path(__file__).with_name("front.py")
QUESTION = "What does os.path.join do?"
DESKTOP = {"width": 1180, "height": 820}


@pytest.fixture(scope="session")
def server() -> str:
    """The base address of the server that is tested."""
    address = os.environ.get("WINDLASS_CHAT_URL", "").rstrip("/")
    if not address:
        pytest.fail(
            "WINDLASS_CHAT_URL is not set: name a running server with the page at /chat, as http://127.0.0.1:8501"
        )
    try:
        found = httpx.get(f"{address}/chat").status_code
    except httpx.HTTPError as error:
        pytest.fail(f"WINDLASS_CHAT_URL {address} cannot be reached ({error}): start the server")
    assert found == httpx.codes.OK, f"{address}/chat answers {found}: the server there has no chat page"
    return address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if not program:
        pytest.fail("there is no chromium on PATH: apt-get install -y --no-install-recommends chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def front(server: str) -> Iterator[Callable[..., str]]:
    """Starts a front before the server, with a prefix or a key; gives its address."""
    running: list[subprocess.Popen[str]] = []

    def start(*options: str) -> str:
        command = [sys.executable, str(FRONT), server, *options]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout
        return process.stdout.readline().strip()

    yield start
    for process in running:
        process.communicate(timeout=30)  # its standard input ends, and so does it


class Chat:
    """The page in a browser, and what a person does with it again and again."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def ask(self, question: str = QUESTION) -> None:
        """Type a question and send it."""
        self.page.get_by_label("Your question").fill(question)
        self.page.keyboard.press("Enter")

    def answered(self, answers: int = 1) -> None:
        """Wait until this many answers stand there and none is being written."""
        expect(self.page.locator(".answer")).to_have_count(answers)
        expect(self.page.locator(".answer.running")).to_have_count(0, timeout=60_000)

    def words(self) -> str:
        """The last answer, as it is read."""
        return self.page.locator(".answer .words").last.inner_text()

    def until(self, expression: str) -> None:
        """Wait for a script's expression; Playwright's own way evaluates inside the page, which the policy refuses."""
        late = time.monotonic() + 30
        while not self.page.evaluate(expression):
            assert time.monotonic() < late, f"never true: {expression}"
            time.sleep(0.02)

    def answer_with(self, *pieces: str, ended: bool = True) -> None:
        """Answer with these pieces from now on: what the demo model would never say."""

        def reply(route: Route) -> None:
            events: list[object] = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
            events += [{"choices": [{"delta": {}, "finish_reason": "stop"}]}] if ended else []
            body = "".join(f"data: {json.dumps(event, ensure_ascii=False)}\r\n\r\n" for event in events)
            body += "data: [DONE]\r\n\r\n" if ended else ""
            route.fulfill(status=200, content_type="text/event-stream", body=body)

        self.page.route("**/v1/chat/completions", reply)


class Visit:
    """One browser context that remembers what went wrong in it: console errors, refusals by the policy, exceptions."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.complaints: list[str] = []

    def open(self, address: str, **options: object) -> Chat:
        """Open the chat page of a server in a new context, as a person would."""
        context = self._browser.new_context(**({"viewport": DESKTOP} | options))
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(f"{address}/chat")
        return Chat(page)

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens pages; afterwards nothing may have complained that the test did not expect."""
    visit = Visit(browser)
    yield visit
    visit.close()
    assert visit.complaints == []


@pytest.fixture
def chat(server: str, visit: Visit) -> Chat:
    """The page, open, with its models listed."""
    chat = visit.open(server)
    chat.until("document.querySelector('#model').value !== '…'")
    return chat
