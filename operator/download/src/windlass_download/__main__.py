"""The command line: `windlass-download`, which the download Job runs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from windlass_base import json_lines
from windlass_base.command_line import output_checked

from windlass_download import command

EXIT_CODES = (
    (command.DONE, "the model is there, or the last message says why another try cannot help"),
    (command.AGAIN, "another try may help; or the last message cannot be written"),
    (command.EXIT_USAGE, "an option or a variable is wrong"),
)


@output_checked(command.PROGRAM)
def main(argv: Sequence[str] | None = None) -> int:
    """Run one download; the exit code is its result."""
    options = command.parser().parse_args(argv)
    try:
        settings = json_lines.read(os.environ)
    except ValueError as error:
        print(f"{command.PROGRAM}: {error}", file=sys.stderr)
        return command.EXIT_USAGE
    if settings.is_json:
        json_lines.install(settings, command.LOGGER)
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for each request tells nobody anything
    return command.run(options, os.environ)


if __name__ == "__main__":
    sys.exit(main())
