"""Charts as PNG files, drawn with Pillow, which vLLM brings along; the page has the same ones as SVG."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.bench.serving.page import STEPS, ceiling

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

WIDTH, HEIGHT = 1120, 640
LEFT, RIGHT, TOP, BOTTOM = 110, 40, 60, 90
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#0a7a83", "#57606a", "#1f2328")
INK, GREY, LINE = "#1f2328", "#57606a", "#d8dee4"
LEGEND_ROW = 24


@dataclass(frozen=True, slots=True)
class Plot:
    """A file's name, its title, the places on the axis, and a line for each name; None breaks a line."""

    file: str
    title: str
    places: Sequence[str]
    lines: Mapping[str, Sequence[float | None]]


def can_draw() -> bool:
    """Whether Pillow can be imported."""
    return importlib.util.find_spec("PIL") is not None


def write(folder: Path, plots: Sequence[Plot]) -> None:
    """Write a PNG file for each chart."""
    for plot in plots:
        _draw(folder / plot.file, plot)


def _draw(path: Path, plot: Plot) -> None:
    from PIL import Image, ImageDraw, ImageFont

    height = HEIGHT + LEGEND_ROW * len(plot.lines)
    image = Image.new("RGB", (WIDTH, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(18)
    top = ceiling([value for line in plot.lines.values() for value in line if value is not None])
    draw.text((LEFT, 18), plot.title, fill=INK, font=ImageFont.load_default(24))
    for step in range(STEPS + 1):
        y = _up(top * step / STEPS, top)
        draw.line((LEFT, y, WIDTH - RIGHT, y), fill=LINE, width=2)
        draw.text((LEFT - 12, y), f"{top * step / STEPS:g}", fill=GREY, font=font, anchor="rm")
    for place, name in enumerate(plot.places):
        draw.text((_across(place, len(plot.places)), HEIGHT - BOTTOM + 12), name, fill=GREY, font=font, anchor="ma")
    for number, (name, values) in enumerate(plot.lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        _line(draw, values, top, colour)
        y = HEIGHT - 40 + LEGEND_ROW * number
        draw.rectangle((LEFT, y, LEFT + 16, y + 16), fill=colour)
        _label(draw, (LEFT + 26, y + 8), name, font)
    image.save(path, "PNG", optimize=True)


def _label(draw: ImageDraw, at: tuple[float, float], text: str, font: FreeTypeFont | ImageFont) -> None:
    draw.text(at, text, fill=INK, font=font, anchor="lm")


def _line(draw: ImageDraw, values: Sequence[float | None], top: float, colour: str) -> None:
    last: tuple[float, float] | None = None
    for place, value in enumerate(values):
        at = None if value is None else (_across(place, len(values)), _up(value, top))
        if at is not None:
            if last is not None:
                draw.line((*last, *at), fill=colour, width=4)
            draw.ellipse((at[0] - 6, at[1] - 6, at[0] + 6, at[1] + 6), fill=colour)
        last = at


def _across(place: int, many: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (place + 0.5) / many


def _up(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top
