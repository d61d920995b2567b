"""Where prompts' tokens were found, as files: an API process writes one for each engine, the supervisor reads them.

Standard library only, since the supervisor imports no vLLM. A file that cannot be read counts as none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from windlass.engine.prefix_offload.hits import HitCount
from windlass.engine.prefix_offload.settings import COUNTS

TRANSFER = "--kv-transfer-config"
FIELDS = ("promptTokens", "gpuTokens", "hostTokens")
"""In the facts: all tokens of prompts, and of these the tokens found on the GPU and in host memory."""


def folder(environment: Mapping[str, str], port: int) -> str:
    """The folder of one server's files, in the directory that a read-only container lets it write to."""
    temporary = environment.get("TMPDIR") or "/tmp"  # noqa: S108 - as above
    return f"{temporary}/windlass-prefix-{port}"


def of_words(words: Sequence[str]) -> Path | None:
    """The folder that a command line of the engine names; None where prefixes are not offloaded."""
    if TRANSFER not in words:
        return None
    with suppress(ValueError, KeyError, TypeError, IndexError):
        return Path(json.loads(words[words.index(TRANSFER) + 1])["kv_connector_extra_config"][COUNTS])
    return None


def write(place: Path, engine: int, count: HitCount) -> None:
    """Replace our file of one engine: it tells each of several API processes a part. A full disk loses the figures."""
    text = json.dumps(dict(zip(FIELDS, (count.asked, count.card, count.host), strict=True)))
    with suppress(OSError):
        place.mkdir(parents=True, exist_ok=True)
        partial = place / f".{engine}.{os.getpid()}"
        partial.write_text(text)
        partial.replace(place / f"{engine}.{os.getpid()}.json")


def read(place: Path) -> dict[str, int] | None:
    """The sums over all engines; None before the first prompt."""
    found = [one for path in sorted(place.glob("*.json")) if (one := _parsed(path))]
    sums = {field: sum(one[field] for one in found) for field in FIELDS}
    return sums if sums[FIELDS[0]] else None


def clear(place: Path) -> None:
    """Forget an earlier process's files."""
    for path in place.glob("*.json"):
        with suppress(OSError):
            path.unlink()


def _parsed(path: Path) -> dict[str, int] | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(path.read_text())
        return {field: int(found[field]) for field in FIELDS}
    return None
