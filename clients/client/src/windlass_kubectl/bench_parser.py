"""The options of `kubectl windlass bench`. Standard library only."""

from __future__ import annotations

import argparse
import re

OURS = ("--server", "--tokenizer", "--output-dir", "--token", "--token-file", "--print-archive")
"""Options of `windlass bench serve` that the plug-in sets."""
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|[EPTGMk]i?)?")
MINUTES = 60
EXAMPLES = (
    ("kubectl windlass bench demo", "200 random prompts, all at once"),
    ("kubectl windlass bench demo --out run1 -- --concurrency 1,10,64 --warmup 20", "a sweep, into a folder of a name"),
    ("kubectl windlass bench demo -o json -- --dataset demo --num-prompts 50", "a row a run, for programs"),
)


def add_options(one: argparse.ArgumentParser) -> None:
    """Where the results go and what the Job may take; words behind -- are `windlass bench serve`'s."""
    one.usage = "kubectl windlass bench NAME [OPTION ...] [-- OPTION OF windlass bench serve ...]"
    one.description = f"{one.description}\nBehind -- stand options of windlass bench serve, but for\n{', '.join(OURS)}."
    one.add_argument("name", metavar="NAME", help="the service")
    one.add_argument("--out", metavar="FOLDER", help="new folder for the results (default: bench-NAME-TIME)")
    one.add_argument(
        "--key-from-secret",
        metavar="SECRET[/ENTRY]",
        help="keys of the service (default: spec.expose.apiKeysSecretRef; the first key is used)",
    )
    one.add_argument("--tokenizer", metavar="PATH", help="model directory in the pod (default: the served model's)")
    one.add_argument("--cpu", type=_quantity, default="1", help="processors that the Job asks for (default: 1)")
    one.add_argument("--memory", type=_quantity, default="4Gi", help="most memory of the Job (default: 4Gi)")
    one.add_argument("--minutes", type=_minutes, default=MINUTES, help=f"most minutes it may take (default: {MINUTES})")
    one.add_argument("--keep", action="store_true", help="leave the Job; the cluster deletes it an hour after its end")


def _quantity(text: str) -> str:
    if not QUANTITY.fullmatch(text):
        raise argparse.ArgumentTypeError(f'"{text}" is no quantity; write 2, 500m or 4Gi')
    return text


def _minutes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 24 * 60):
        raise argparse.ArgumentTypeError(f'"{text}" is no number of minutes from 1 to 1440')
    return int(text)
