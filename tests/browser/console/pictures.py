"""Takes the docs' pictures of the console: `python tests/browser/console/pictures.py` writes docs/img/console-*.png.

Chromium shows the pages before the stand-in of the back end; the files are reduced to 160 colours.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).parent
IMAGES = HERE.parents[2] / "docs/img"
COLOURS = 160


@dataclass(frozen=True)
class Picture:
    """One file: a place of the console, in a browser with these options."""

    name: str
    place: str
    options: dict[str, Any] = field(default_factory=dict)
    filled: bool = False
    wait_s: float = 2.0


PHONE = {"viewport": {"width": 390, "height": 780}, "device_scale_factor": 1.5, "is_mobile": True}
PICTURES = (
    Picture("console-services", "services"),
    Picture("console-deploy", "new", filled=True),
    Picture("console-service-dark", "services/chat/baichuan2-13b", {"color_scheme": "dark"}),
    Picture("console-graphs", "services/chat/qwen2-7b/graphs", wait_s=32),
    Picture("console-capacity", "capacity"),
    Picture("console-phone", "services", PHONE),
    Picture("console-chinese", "new", {"locale": "zh-CN"}, filled=True),
)


def fill(page: Page) -> None:
    """Fill the form so far that its plan is there."""
    page.locator("#form-taken").select_option(index=1)
    page.locator('[data-path="metadata.name"]').fill("qwen2-7b-trial")
    page.locator(".plan .memory").wait_for()


def take(browser: Browser, address: str, picture: Picture) -> None:
    """Take one picture and write it."""
    shared = {"viewport": {"width": 1360, "height": 800}, "locale": "en-GB", "reduced_motion": "reduce"}
    context = browser.new_context(**(shared | picture.options))
    page = context.new_page()
    page.goto(f"{address}#/{picture.place}")
    page.get_by_role("heading", level=1).wait_for()
    if picture.filled:
        fill(page)
    page.wait_for_timeout(1000 * picture.wait_s)
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        IMAGES / f"{picture.name}.png", optimize=True
    )
    context.close()


def has_chinese() -> bool:
    """Whether this machine has a font for the page in Chinese; without one its signs are boxes."""
    return bool(subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=True).stdout)


def main() -> None:
    """Take all pictures, or those that are named."""
    if not has_chinese():
        sys.exit("no font for Chinese here: apt-get install fonts-wqy-microhei")
    command = [sys.executable, str(HERE / "stand_in.py"), "--services", "24"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().strip() if process.stdout else ""
        with sync_playwright() as playwright:
            program = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for picture in PICTURES:
                if len(sys.argv) < 2 or picture.name in sys.argv[1:]:
                    take(browser, address, picture)
            browser.close()
        process.communicate(timeout=30)


if __name__ == "__main__":
    main()
