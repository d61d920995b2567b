"""Refuses a start whose lookahead cache could not be made, before anything else is started. Called by `launch.exec`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from windlass.errors import UsageError
from windlass.lookahead import settings

PACKAGE = "windlass_lookahead"


def check(variables: Mapping[str, str]) -> None:
    """UsageError for a package that is missing, or a configuration or warm-up file that cannot be used."""
    known = settings.read(variables)
    if known is None:
        return
    if find_spec(PACKAGE) is None:
        raise UsageError(
            "--use-lookahead needs the package windlass-lookahead; install windlass-server[lookahead] or leave it out"
        )
    from windlass_lookahead import OptionError, options_from_directory
    from windlass_lookahead.cache import read_exchanges

    try:
        if known.config_dir and (file := options_from_directory(Path(known.config_dir)).warmup_file):
            for _ in read_exchanges(Path(file)):
                pass
    except OptionError as error:
        raise UsageError(
            f"--lookahead-cache-config-dir: {str(error).rstrip('.')}; correct it or leave it out"
        ) from None
