"""The docs' pictures of the console, from a real run: docs/img/console-*.png, reduced to 160 colours."""

import io
from typing import Any

from PIL import Image
from playwright.sync_api import Page, expect
from windlass_testbed.browsing.chromium import Visit
from windlass_testbed.paths import REPOSITORY

IMAGES = REPOSITORY / "docs/img"
COLOURS = 160
SIZE = {"width": 1360, "height": 800}
PHONE = {"viewport": {"width": 390, "height": 780}, "device_scale_factor": 1.5, "is_mobile": True}
SETTLE_MS = 1500
TAKEN = "demo · demo"
"""The model of the service that runs; another of the scenario has a wrong path, which fits nowhere."""


class Pictures:
    """Takes pictures of pages that stand as they are, and of lists in contexts of their own; else does nothing."""

    def __init__(self, visit: Visit[Any], url: str, token: str, wanted: bool) -> None:
        self._visit, self._url, self._token, self._wanted = visit, url, token, wanted

    def take(self, name: str, page: Page, **media: Any) -> None:
        """A picture of the page as it is, in the docs' size."""
        if not self._wanted:
            return
        expect(page.locator(".note")).to_have_count(0)
        before = page.viewport_size
        page.set_viewport_size(SIZE)
        page.emulate_media(**({"color_scheme": "light"} | media))
        self._write(name, page)
        page.emulate_media(color_scheme="light")
        if before:
            page.set_viewport_size(before)

    def lists(self) -> None:
        """The list, capacity, the list on a phone, and the form in Chinese."""
        if not self._wanted:
            return
        for name, place, options in (
            ("console-services", "services", {"viewport": SIZE}),
            ("console-capacity", "capacity", {"viewport": SIZE}),
            ("console-phone", "services", PHONE),
            ("console-chinese", "new", {"viewport": SIZE, "locale": "zh-CN"}),
        ):
            console = self._visit.open(self._url, **options)
            console.hands.write(console.page.locator("input[name=token]"), self._token)
            console.page.keyboard.press("Enter")
            expect(console.rows().first).to_be_visible()
            console.go(place)
            expect(console.page.get_by_role("heading", level=1)).to_be_visible()
            if place == "new":
                self._fill(console.page)
            self._write(name, console.page)
            console.page.context.close()

    def _fill(self, page: Page) -> None:
        page.locator("#form-taken").select_option(label=TAKEN)
        page.locator('[data-path="metadata.name"]').fill("demo-trial")
        page.locator(".plan .memory").wait_for()

    def _write(self, name: str, page: Page) -> None:
        page.wait_for_timeout(SETTLE_MS)
        image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        small = image.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, kmeans=2, dither=Image.Dither.NONE)
        small.save(IMAGES / f"{name}.png", optimize=True)
