"""`kubectl-windlass`, which kubectl finds on the PATH and runs as `kubectl windlass`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence

from windlass_base.command_line import OutputError, output_checked

from windlass_kubectl import parser as cli

COMPLETE = "__complete"
ERROR_MAX, TRACE_LINES = 8192, 20  # characters, frames


@output_checked(cli.PROGRAM)
def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is its result."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == [COMPLETE]:
        from windlass_kubectl.completion import answer

        return answer(words[1:])
    options = cli.parser().parse_args([_dashed(word) for word in words])
    if options.command == "completion":
        from windlass_kubectl.completion import script

        print(script(options.shell), end="")
        return cli.OK.code
    return _run(options)


def _dashed(word: str) -> str:
    """`--max_tokens` is `--max-tokens`; a value keeps its underscores."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if re.match("--[a-z]", word) and " " not in name else word


def _run(options: argparse.Namespace) -> int:
    """The command, with its failures as a sentence and an exit code."""
    from windlass_base.kube.errors import ClientError

    from windlass_kubectl.harmless import harmless

    command = importlib.import_module(f"windlass_kubectl.{options.command}")
    try:
        if hasattr(command, "prepare"):
            command.prepare(options)
        code: int = asyncio.run(_in_session(command.run, options))
    except ClientError as error:
        print(harmless(f"kubectl windlass {options.command}: {str(error)[:ERROR_MAX]}"), file=sys.stderr)
        return _code(error).code
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stdout.flush()
        os._exit(cli.INTERRUPTED.code)  # a thread may still wait for a line that is never typed
    except OutputError:
        raise
    except Exception:  # a mistake of ours; its text may hold what a server sent
        print(harmless(traceback.format_exc(limit=-TRACE_LINES)[:ERROR_MAX]), file=sys.stderr)
        return cli.FAILED.code
    return code


async def _in_session(command: object, options: argparse.Namespace) -> int:
    from windlass_kubectl.session import Session

    task = asyncio.current_task()
    if task is not None:  # ended from outside, a port-forward must not be left behind
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Session(options) as session:
        return int(await command(session))  # type: ignore[operator]  # each command module has `run(session)`


def _code(error: Exception) -> cli.ExitCode:
    from windlass_base.kube import errors
    from windlass_client.errors import NoFactsError

    from windlass_kubectl.errors import WrongOptionError

    table = (
        (WrongOptionError, cli.USAGE),
        (errors.NotFoundError, cli.NOT_FOUND),
        (NoFactsError, cli.NOTHING_FITS),
        (errors.AccessError, cli.UNREACHABLE),
        (errors.UnreachableError, cli.UNREACHABLE),
        (errors.UnauthorizedError, cli.UNREACHABLE),
        (errors.ForbiddenError, cli.UNREACHABLE),
    )
    return next((code for kind, code in table if isinstance(error, kind)), cli.FAILED)


if __name__ == "__main__":
    sys.exit(main())
