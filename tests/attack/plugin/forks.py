"""Runs a command in processes forked from one that has loaded it: its output goes to a file or to a terminal.

`python forks.py MODULE` reads a line of JSON a request, `{"words", "out", "err", "env"}`, and answers the process id;
`{"wait": ID}` answers the exit status (negative: the signal that ended it).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys


def child(module: str, request: dict) -> None:
    """Run the command as a process of its own."""
    for number, name in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOCTTY), number)
    os.environ.update(request["env"])
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    sys.argv = [module, *request["words"]]
    code: object = 3
    try:
        code = importlib.import_module(module).main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or 3
        os._exit(code if isinstance(code, int) else 0)


def serve(module: str) -> None:
    """Answer requests until the input ends."""
    for name in (module, *LOADED[module]):
        importlib.import_module(name)
    gc.freeze()  # no fork walks over what was imported, which would copy its pages
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        elif (answer := os.fork()) == 0:
            child(module, request)
        print(answer, flush=True)


LOADED = {
    "windlass_kubectl.__main__": [
        *(f"windlass_kubectl.{one}" for one in "status logs chat report".split()),
        *("truststore", "httpcore2", "anyio._backends._asyncio"),
    ],
    "windlass.cli.main": ["windlass.chat.stream", "typer._adapters", "httpcore", "anyio._backends._asyncio"],
}
"""Modules that each command would import, for each program; httpx, httpx2 and typer import theirs late."""

if __name__ == "__main__":
    serve(sys.argv[1])
