"""The options of `kubectl windlass usage`. Standard library only."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime

COLUMNS = ("hour", "service", "key", "model")
BY = ("service", "key", "model")
TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d)?")
EXAMPLES = (
    ("kubectl windlass usage", "the last 24 hours of all services of the namespace"),
    ("kubectl windlass usage demo --from 2026-11-01 --to 2026-11-30 --by key", "a line for each key"),
    ("kubectl windlass usage demo --key search --by hour,model --csv", "for a spreadsheet"),
)


def add_options(one: argparse.ArgumentParser) -> None:
    """Which records, and how they are summed."""
    one.add_argument("name", nargs="?", metavar="NAME", help="the service; left out: all of the namespace")
    one.add_argument(
        "--from", dest="first", type=_time, metavar="TIME", help="first day or hour in UTC (default: 23 hours ago)"
    )
    one.add_argument(
        "--to", dest="last", type=_last, metavar="TIME", help="last day or hour, itself included (default: now)"
    )
    one.add_argument("--key", metavar="KEY", help="only the key of this name")
    one.add_argument("--model", metavar="MODEL", help="only this model: an adapter's name, or the service's own")
    one.add_argument(
        "--by",
        type=_columns,
        default=BY,
        metavar="COLUMNS",
        help=f"a line for each of these, of {', '.join(COLUMNS)} (default: {','.join(BY)})",
    )
    one.add_argument("--csv", action="store_true", help="print CSV")


def _time(text: str) -> datetime:
    try:
        if not TIME.fullmatch(text):
            raise ValueError
        return datetime.fromisoformat(text if "T" in text else f"{text}T00").replace(tzinfo=UTC)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is no time; write 2026-11-25 or 2026-11-25T14') from None


def _last(text: str) -> datetime:
    return _time(text) if "T" in text else _time(text).replace(hour=23)


def _columns(text: str) -> tuple[str, ...]:
    words = text.split(",")
    if wrong := next((word for word in words if word not in COLUMNS), None):
        raise argparse.ArgumentTypeError(f'"{wrong}" is no column; write some of {",".join(COLUMNS)}')
    if "" in words:
        raise argparse.ArgumentTypeError(f"a column has no name; write some of {','.join(COLUMNS)}")
    return tuple(column for column in COLUMNS if column in words)
