"""Tests of the chat page in a real Chromium, against a real engine that serves the demo model.

`WINDLASS_CHAT_URL` is the address of a running server with the page at `/chat`; the make target sets it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect
from windlass_testbed.browsing.chromium import Visit, chromium
from windlass_testbed.waiting import wait_until

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
    with chromium() as browser:
        yield browser


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

    def wait_for_answer(self, answers: int = 1) -> None:
        """Wait until this many answers stand there and none is being written."""
        expect(self.page.locator(".answer")).to_have_count(answers)
        expect(self.page.locator(".answer.running")).to_have_count(0, timeout=60_000)

    def words(self) -> str:
        """The last answer, as it is read."""
        return self.page.locator(".answer .words").last.inner_text()

    def until(self, expression: str) -> None:
        """Wait for a script's expression; Playwright's own way evaluates inside the page, which the policy refuses."""
        wait_until(lambda: self.page.evaluate(expression), expression)

    def answer_with(self, *pieces: str, ended: bool = True) -> None:
        """Answer with these pieces from now on: what the demo model would never say."""

        def reply(route: Route) -> None:
            events: list[object] = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
            events += [{"choices": [{"delta": {}, "finish_reason": "stop"}]}] if ended else []
            body = "".join(f"data: {json.dumps(event, ensure_ascii=False)}\r\n\r\n" for event in events)
            body += "data: [DONE]\r\n\r\n" if ended else ""
            route.fulfill(status=200, content_type="text/event-stream", body=body)

        self.page.route("**/v1/chat/completions", reply)


def entered(page: Page, address: str) -> Chat:
    """The chat page of a server, as its address opens it."""
    page.set_default_timeout(30_000)
    page.goto(f"{address}/chat")
    return Chat(page)


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit[Chat]]:
    """Opens pages; afterwards they have shown no error that the test did not expect."""
    visit = Visit(browser, entered, viewport=DESKTOP)
    yield visit
    visit.close()
    assert visit.errors == []


@pytest.fixture
def chat(server: str, visit: Visit[Chat]) -> Chat:
    """The page, open, with its models listed."""
    chat = visit.open(server)
    chat.until("document.querySelector('#model').value !== '…'")
    return chat
