"""Runs the command in processes that can be killed: loaded once, forked for each run.

Reads a line of JSON a request: `["start", ARGUMENTS]` answers the process id, `["wait", ID]` its exit status (negative:
the signal that ended it). `["start lying", ARGUMENTS]` makes the process believe that it owns whatever it wants.
"""

from __future__ import annotations

import json
import os
import sys


def lie() -> None:
    """Claims as on a volume whose files are not what they seem: each process sees its own claim and no other."""
    from windlass_download import claim

    claim.Claimant.take = lambda self: claim.Claim(self._folder, self._owner, 1)  # type: ignore[method-assign]
    claim.Claim.renew = claim.Claim.check = lambda *_: None  # type: ignore[method-assign, assignment]
    claim.Claim.release = lambda _: None  # type: ignore[method-assign]


def child(arguments: list[str], lying: bool) -> None:
    """Run the command as a process of its own."""
    from windlass_download.__main__ import main

    if lying:
        lie()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    code = 3
    try:
        code = main(arguments)
    finally:
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    """Answer requests until the input ends."""
    import windlass_download.job  # noqa: F401 - loaded before the forks

    for line in sys.stdin:
        word, value = json.loads(line)
        if word.startswith("start"):
            answer = os.fork()
            if answer == 0:
                child(value, lying=word.endswith("lying"))
        else:
            _, status = os.waitpid(value, 0)
            answer = os.waitstatus_to_exitcode(status)
        print(answer, flush=True)


if __name__ == "__main__":
    serve()
