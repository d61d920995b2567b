"""Refuses a start whose lookahead cache could not be made, before anything else is started. Called by `launch.exec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from windlass.errors import UsageError
from windlass.lookahead import settings

PACKAGE = "windlass_lookahead"
SMALL = 16
"""Entries of the cache that a warm-up file is tried on: as few as the core takes."""


def check(variables: Mapping[str, str], vocabulary: int | None = None) -> None:
    """UsageError for a package that is missing, or a configuration or warm-up file that cannot be used."""
    known = settings.read(variables)
    if known is None:
        return
    if find_spec(PACKAGE) is None:
        raise UsageError(
            "--use-lookahead needs the package windlass-lookahead; install windlass-server[lookahead] or leave it out"
        )
    from windlass_lookahead import LookaheadCache, OptionError, options_from_directory

    known_size = {"voc_size": vocabulary} if vocabulary else {}
    try:
        if known.config_dir and (found := options_from_directory(Path(known.config_dir), **known_size)).warmup_file:
            LookaheadCache(replace(found, cache_size=SMALL))
    except OptionError as error:
        raise UsageError(
            f"--lookahead-cache-config-dir: {str(error).rstrip('.')}; correct it or leave it out"
        ) from None
