"""The site of docs/ in a real Chromium; `make test-docs` builds it and runs this."""

import functools
import json
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, expect
from windlass_testbed.browsing.chromium import chromium
from windlass_testbed.paths import REPOSITORY

SITE = REPOSITORY / ".cache/site"
WAIT_MS = 20_000
# Parts of names in tables that stand on more than one line.
BROKEN_PARTS = """() => {
  const broken = [];
  for (const code of document.querySelectorAll('td code')) {
    const walk = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      if (!/^[\\w.\\[\\]]+$/.test(walk.currentNode.data)) continue; // a pattern or a sentence breaks where it has to
      const range = document.createRange();
      range.selectNodeContents(walk.currentNode);
      if (new Set([...range.getClientRects()].map((one) => one.top)).size > 1) broken.push(walk.currentNode.data);
    }
  }
  return broken;
}"""


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves the site without a line for each request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The site as it was built, on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page of a desktop browser that may read the clipboard, at the front page."""
    context = browser.new_context(viewport={"width": 1360, "height": 860})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{address}/index.html")
    yield page
    context.close()


def copied(page: Page, block: int) -> str:
    """The clipboard's text after a click on the copy button of a block."""
    page.evaluate("navigator.clipboard.writeText('')")
    page.locator("[data-clipboard-target]").nth(block).click()
    page.wait_for_function("navigator.clipboard.readText().then(Boolean)")
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_the_copy_button_takes_commands_alone(page: Page, address: str) -> None:
    """No prompt and no output, and a command that goes on after a backslash is whole."""
    page.goto(f"{address}/reference/license-server.html")
    block = copied(page, 0).splitlines()
    assert [line.split()[0] for line in block] == [
        "windlass-license",
        "windlass-license",
        "--expires",
        "windlass-license",
    ]
    page.goto(f"{address}/how-to/doctor.html")
    assert copied(page, 0) == "windlass doctor --model /data/nowhere"


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("suspend", "how-to/pods.html"),
        ("scale", "how-to/autoscale.html"),
        ("chat", "how-to/chat-page.html"),
        ("download", "how-to/download.html"),
        ("console", "how-to/run-console.html"),
    ],
)
def test_a_search_leads_to_an_instruction(page: Page, words: str, first: str) -> None:
    """The first hit is a how-to, before decisions and before reference."""
    page.get_by_role("textbox", name="Search").fill(words)
    hit = page.locator(".md-search-result__item > a").first
    expect(hit).to_be_visible()
    assert first == (hit.get_attribute("href") or "").split("?")[0].split("/", 3)[3]


def test_the_search_knows_pages_alone() -> None:
    """The site's copies of the repository's files have their places, and no row of the index."""
    rows = json.loads((SITE / "search/search_index.json").read_text())["docs"]
    assert {row["location"].split("/")[0] for row in rows if row["location"].startswith("repository/")} == set()
    assert (SITE / "repository/charts/windlass/values.yaml.html").is_file()


@pytest.mark.parametrize("width", [1360, 390])
def test_a_name_in_a_table_breaks_after_its_dots_alone(page: Page, address: str, width: int) -> None:
    """On a desktop and on a phone; a table that is too wide scrolls by itself."""
    page.set_viewport_size({"width": width, "height": 860})
    page.goto(f"{address}/reference/llmservice.html")
    expect(page.locator("td code").first).to_be_visible()
    assert page.evaluate(BROKEN_PARTS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_front_page_begins_with_three_ways(page: Page) -> None:
    """Each is a card with its command, above the index by question."""
    cards = page.locator(".grid.cards > ul > li")
    expect(cards).to_have_count(3)
    assert [card.locator("code").inner_text().splitlines()[0] for card in cards.locator("pre").all()] == [
        "$ make demo",
        "$ kubectl windlass create qwen \\",
        "$ .venv/bin/windlass plan --gpu L20 \\",
    ]
    assert "Three ways to start" in page.locator("h2").first.inner_text()
