"""Chromium of this machine under Playwright, and browser contexts that record what goes wrong in their pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from windlass_testbed.errors import BedError

Opened = TypeVar("Opened")


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    """Debian's Chromium, headless, until the block ends."""
    program = shutil.which("chromium")
    if not program:
        raise BedError("there is no chromium on PATH: apt-get install -y --no-install-recommends chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", *flags])
        try:
            yield browser
        finally:
            browser.close()


class Visit(Generic[Opened]):
    """Contexts of one browser; `errors` are console errors, refusals by the policy and exceptions of their pages."""

    def __init__(self, browser: Browser, enter: Callable[[Page, str], Opened], **defaults: object) -> None:
        """`enter` opens an address in a new page; `defaults` are options of each context."""
        self._browser, self._enter, self._defaults = browser, enter, defaults
        self._contexts: list[BrowserContext] = []
        self.errors: list[str] = []

    def open(self, address: str, **options: object) -> Opened:
        """Open the address in a context of its own."""
        chosen: dict[str, Any] = self._defaults | options
        context = self._browser.new_context(**chosen)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._record)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        return self._enter(page, address)

    def close(self) -> None:
        """Close every context."""
        for context in self._contexts:
            context.close()

    def _record(self, line: ConsoleMessage) -> None:
        if line.type in ("error", "warning"):
            self.errors.append(line.text)
