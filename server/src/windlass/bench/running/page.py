"""A whole benchmark as one HTML page that asks no network: bars for each server, and the table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from windlass.bench.serving.page import HEAD, ceiling

COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#0a7a83", "#57606a")
WIDTH, BAR, GAP, TOP = 130, 16, 6, 8
"""Pixels: the longest bar, the height of a bar, the space between two bars, the margin above and below."""
CHARACTER = 5.9
"""Width of a character of the labels in pixels, at 11 px."""
VALUE_WIDTH = 48
STYLE = """\
<style>
h2 { margin: 1.5rem 0 .5rem; font-size: 1.1rem } table { font-size: 12px; margin-top: 0 }
td:first-child, th:first-child { text-align: left } td, th { padding: .2rem .3rem } th { white-space: normal }
.charts { gap: .5rem 1rem }
</style>
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A server's median, and its lowest and highest round."""

    label: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Figure:
    """The bars of one measure."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The figures of one load."""

    title: str
    figures: tuple[Figure, ...]


def as_page(
    title: str, groups: Sequence[Group], table: Sequence[Sequence[str]], notes: Sequence[str], warned: Sequence[str]
) -> str:
    """The whole page."""
    parts = [
        HEAD.format(title=escape(title)).replace("</head>", f"{STYLE}</head>"),
        *(f'<p class="warning">{escape(sentence)}</p>\n' for sentence in warned),
        *map(_group, groups),
        "<h2>All servers and loads</h2>\n",
        _table(table),
        *(f"<p>{escape(sentence)}</p>\n" for sentence in notes),
    ]
    return f"{''.join(parts)}</body></html>\n"


def _group(group: Group) -> str:
    return f"<h2>{escape(group.title)}</h2>\n<div class=charts>\n{''.join(map(_figure, group.figures))}</div>\n"


def _figure(figure: Figure) -> str:
    labels = dict.fromkeys(bar.label for bar in figure.bars)
    left = 12 + CHARACTER * max(map(len, labels))
    top = ceiling([bar.high for bar in figure.bars])
    height = TOP + len(figure.bars) * (BAR + GAP) + TOP
    width = left + WIDTH + VALUE_WIDTH
    drawn = [
        _bar(bar, TOP + at * (BAR + GAP), left, top, COLOURS[at % len(COLOURS)]) for at, bar in enumerate(figure.bars)
    ]
    return (
        f"<figure><figcaption>{escape(figure.title)}</figcaption>\n"
        f'<svg viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img" '
        f'aria-label="{escape(figure.title)}">\n{chr(10).join(drawn)}\n</svg></figure>\n'
    )


def _bar(bar: Bar, y: float, left: float, top: float, colour: str) -> str:
    scale = WIDTH / top
    middle = y + BAR / 2
    drawn = [
        f'<text x="{left - 6:.1f}" y="{middle + 4:.1f}" text-anchor="end">{escape(bar.label)}</text>',
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{bar.value * scale:.1f}" height="{BAR}" fill="{colour}"/>',
    ]
    if bar.high > bar.low:
        ends = f"M{left + bar.low * scale:.1f} {middle:.1f}H{left + bar.high * scale:.1f}"
        drawn.append(f'<path d="{ends}" stroke="#1f2328" stroke-width="1.5"/>')
    at = left + bar.high * scale + 6
    drawn.append(f'<text x="{at:.1f}" y="{middle + 4:.1f}">{bar.value:.4g}</text>')
    return "".join(drawn)


def _table(table: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table[0])
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table[1:]]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<div class=scroll><table>\n<tr>{head}</tr>\n{body}\n</table></div>\n"
