"""Writes the record of the engine's flags from the engine's own parser, where vLLM of that release is installed.

`python tools/engine_flags.py RELEASE` writes `lib/sizing/src/windlass_sizing/engine_flags.json`; without a release it
prints the flags as RESULT {"--flag": "what it takes", …}, for the test in the serving image.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_PLUGINS": ""}

from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
from windlass_sizing.engine_flags import RECORD, ValueCount

NARGS = {None: ValueCount.ONE, 0: ValueCount.NOTHING, "?": ValueCount.MAYBE, "+": ValueCount.MANY}
"""argparse's `nargs`; another one fails the tool, so that somebody looks at it."""


def flags() -> dict[str, str]:
    """Every spelling that the engine's parser knows, and what it takes."""
    parser = make_arg_parser(FlexibleArgumentParser())
    return {name: NARGS[action.nargs].value for action in parser._actions for name in action.option_strings}


def main(words: Sequence[str]) -> None:
    """Write the record, or print the flags."""
    if words:
        (release,) = words
        RECORD.write_text(json.dumps({"release": release, "flags": flags()}, indent=1, sort_keys=True) + "\n")
    else:
        print("RESULT", json.dumps(flags()))


if __name__ == "__main__":
    main(sys.argv[1:])
