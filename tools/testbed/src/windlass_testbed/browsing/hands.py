"""Two ways to operate a page: by pointer, and by keyboard alone. A scenario runs with either."""

from __future__ import annotations

from typing import Protocol

from playwright.sync_api import Locator

TABS_MAX = 120
"""More focusable elements than the longest page of the console has."""
FOCUSED = "one => one === document.activeElement"
FOCUS_SHOWN = "one => one.matches(':focus-visible')"


class Hands(Protocol):
    """What a user does to one element."""

    def press(self, target: Locator) -> None:
        """Activate a link, a button or a summary."""

    def write(self, target: Locator, text: str) -> None:
        """Replace the text of a field."""

    def choose(self, target: Locator, value: str) -> None:
        """Choose an option of a select by its value."""


class Pointer:
    """Clicks, and fills fields at once."""

    def press(self, target: Locator) -> None:
        """Click it."""
        target.click()

    def write(self, target: Locator, text: str) -> None:
        """Fill it."""
        target.fill(text)

    def choose(self, target: Locator, value: str) -> None:
        """Choose it."""
        target.select_option(value)


class Keyboard:
    """Tab, Enter, arrow keys and characters alone; a target that Tab does not reach is an error."""

    def __init__(self) -> None:
        self.tabs = 0

    def press(self, target: Locator) -> None:
        """Go there and press Enter."""
        self.reach(target)
        target.page.keyboard.press("Enter")

    def write(self, target: Locator, text: str) -> None:
        """Go there, select what stands there, and type."""
        self.reach(target)
        keys = target.page.keyboard
        keys.press("Control+a")
        keys.type(text) if text else keys.press("Delete")

    def choose(self, target: Locator, value: str) -> None:
        """Go there and walk through the options."""
        self.reach(target)
        options: list[str] = target.evaluate("one => [...one.options].map((option) => option.value)")
        target.page.keyboard.press("Home")
        for _ in range(options.index(value)):
            target.page.keyboard.press("ArrowDown")

    def reach(self, target: Locator) -> None:
        """Press Tab until the element has the focus, and shows it."""
        target.wait_for()
        for _ in range(TABS_MAX):
            if target.evaluate(FOCUSED):
                assert target.evaluate(FOCUS_SHOWN), f"the focus is not shown: {target}"  # noqa: S101
                return
            target.page.keyboard.press("Tab")
            self.tabs += 1
        raise AssertionError(f"{TABS_MAX} times Tab do not reach {target}")
