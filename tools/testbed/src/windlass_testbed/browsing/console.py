"""The web console in a browser, and what a user does with it: sign in, deploy, ask, scale, edit, delete."""

from __future__ import annotations

import time
from typing import Any, Literal

from playwright.sync_api import Locator, Page, expect

from windlass_testbed.browsing.hands import Hands, Pointer
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY

AXE = REPOSITORY / "clients/console/node_modules/axe-core/axe.min.js"
DESKTOP = {"width": 1360, "height": 860}
WAIT_MS = 15_000
POLL_S = 0.02
LONGEST_S = 30
DETAILS = "details.everything"
# Each status that the page of a service shows, with milliseconds since the page's start; the answer's lengths likewise.
RECORD_STATUS = """() => {
  window.shownStatuses = [];
  const note = () => {
    const text = document.querySelector('h1 .status')?.textContent.trim();
    const last = window.shownStatuses.at(-1);
    if (text && text !== last?.[0]) window.shownStatuses.push([text, performance.now()]);
  };
  new MutationObserver(note).observe(document.body, {subtree: true, childList: true, characterData: true});
  note();
}"""
RECORD_ANSWER = """() => {
  window.answerLengths = [];
  const note = () => {
    const length = [...document.querySelectorAll('.turn.assistant')].at(-1)?.textContent.length;
    if (length && length !== window.answerLengths.at(-1)) window.answerLengths.push(length);
  };
  new MutationObserver(note).observe(document.querySelector('.talk'),
    {subtree: true, childList: true, characterData: true});
}"""
SCROLL = """async (steps) => {
  const box = document.querySelector('.services .scroll');
  const gaps = [];
  let before = performance.now();
  for (let step = 0; step < steps; step++) {
    box.scrollTop = (step * box.scrollHeight) / steps;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - before);
    before = now;
  }
  return gaps.sort((a, b) => a - b);
}"""
SEND = """async ([method, path, body]) => {
  const headers = {'X-Windlass-Console': '1', 'Content-Type': 'application/json'};
  const answer = await fetch(`api/${path}`, {method, headers, body: body && JSON.stringify(body)});
  return [answer.status, await answer.json().catch(() => null)];
}"""


class Console:
    """The console in one page."""

    def __init__(self, page: Page, address: str, hands: Hands | None = None) -> None:
        self.page, self.address, self.hands = page, address, hands or Pointer()
        page.set_default_timeout(WAIT_MS)

    def go(self, place: str) -> None:
        """Open a place of the console, as `services/chat/qwen2-7b`."""
        self.page.goto(f"{self.address}#/{place}")

    def sign_in(self, token: str) -> None:
        """Give the token; the list opens."""
        self.hands.write(self.page.get_by_label("Kubernetes token"), token)
        self.press("Sign in")
        expect(self.page.get_by_role("heading", name="Services", level=1)).to_be_visible()

    def press(self, name: str, role: Literal["button", "link"] = "button", within: Locator | None = None) -> None:
        """Activate the control of this name."""
        self.hands.press((within or self.page).get_by_role(role, name=name, exact=True))

    def rows(self) -> Locator:
        """The rows of the list that are drawn."""
        return self.page.locator(".services .all [role=row]")

    def row(self, name: str) -> Locator:
        """The row of a service."""
        return self.rows().filter(has=self.page.get_by_role("link", name=name, exact=True))

    def field(self, path: str) -> Locator:
        """The form's field of a path of the resource."""
        return self.page.locator(f'[data-path="{path}"]').first

    def write(self, path: str, text: str) -> None:
        """Fill a field of the form that is in sight."""
        self.hands.write(self.field(path), text)

    def write_found(self, path: str, text: str) -> None:
        """Fill a field behind the simple ones, found by its path."""
        if self.page.locator(f"{DETAILS}[open]").count() == 0:
            self.hands.press(self.page.locator(f"{DETAILS} > summary"))
        self.hands.write(self.page.get_by_label("Find a field"), path)
        self.hands.write(self.page.locator(f'{DETAILS} [data-path="{path}"]'), text)

    def yaml(self) -> str:
        """The YAML beside the form."""
        return self.page.get_by_label("YAML").input_value()

    def type_yaml(self, text: str) -> None:
        """Replace the YAML beside the form."""
        self.page.get_by_label("YAML").fill(text)

    def status(self) -> Locator:
        """What the page of a service shows as its status."""
        return self.page.locator("h1 .status")

    def record_statuses(self) -> None:
        """From now on the page keeps each status that it shows, and when."""
        self.page.evaluate(RECORD_STATUS)

    def statuses(self) -> list[tuple[str, float]]:
        """Each status shown since `record_statuses`, with seconds since the page's start."""
        return [(text, ms / 1000) for text, ms in self.page.evaluate("window.shownStatuses")]

    def ask(self, question: str) -> list[int]:
        """Ask the model on the chat tab; the lengths of the answer as it grew. Needs a service that runs."""
        messages = self.page.locator(".turn.assistant")
        field = self.page.get_by_label("Your question")
        field.wait_for()
        before = messages.count()
        self.page.evaluate(RECORD_ANSWER)
        self.hands.write(field, question)
        self.page.keyboard.press("Enter")
        expect(messages).to_have_count(before + 1)
        expect(messages.last.locator(".measure")).to_be_visible(timeout=60_000)
        lengths: list[int] = self.page.evaluate("window.answerLengths")
        return lengths

    def answer(self) -> str:
        """The last answer with its figures."""
        return self.page.locator(".turn.assistant").last.inner_text()

    def scale(self, replicas: int) -> None:
        """Scale the service whose page is open."""
        self.press("Scale")
        dialog = self.page.get_by_role("dialog")
        self.hands.write(dialog.get_by_role("spinbutton", name="Replicas"), str(replicas))
        self.press("Scale", within=dialog)
        expect(dialog).to_have_count(0)

    def delete(self, name: str) -> None:
        """Delete the service whose page is open; its name confirms it."""
        self.press("Delete")
        dialog = self.page.get_by_role("dialog")
        self.hands.write(dialog.get_by_role("textbox"), name)
        self.press("Delete", within=dialog)
        expect(dialog).to_have_count(0)

    def send(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """A request as a script of the page sends it, past what the page offers: status and answer."""
        status, answer = self.page.evaluate(SEND, [method, path, body])
        return status, answer

    def scroll(self, steps: int = 120) -> dict[str, float]:
        """Scroll through the whole list, a step each frame: the median, the 95th percentile and the longest in ms."""
        gaps: list[float] = self.page.evaluate(SCROLL, steps)
        at = {"median": steps // 2, "p95": steps * 95 // 100, "longest": steps - 1}
        return {name: round(gaps[index], 1) for name, index in at.items()}

    def memory(self) -> dict[str, float]:
        """What the page holds after a garbage collection: MiB of its JavaScript heap, and nodes of its documents."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("HeapProfiler.collectGarbage")
        session.send("Performance.enable")
        rows = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        session.detach()
        return {"heap_mib": round(rows["JSHeapUsedSize"] / 2**20, 1), "nodes": rows["Nodes"]}

    def until(self, expression: str) -> None:
        """Wait for a script's expression; Playwright's own way evaluates inside the page, which the policy refuses."""
        late = time.monotonic() + LONGEST_S
        while not self.page.evaluate(expression):
            if time.monotonic() > late:
                raise AssertionError(f"not true within {LONGEST_S} s: {expression}")
            time.sleep(POLL_S)

    def findings(self) -> list[str]:
        """What axe finds serious on the page as it is now; the context needs `bypass_csp`."""
        if not AXE.exists():
            raise BedError("axe-core is not there: cd clients/console && npm ci --ignore-scripts")
        self.page.evaluate(f"() => {{ {AXE.read_text(encoding='utf-8')}; }}")
        found = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
        return [f"{one['id']}: {[node['target'] for node in one['nodes']]}" for one in serious]


def entered(page: Page, address: str) -> Console:
    """The console at its list, as its address opens it."""
    console = Console(page, address)
    console.go("services")
    return console
