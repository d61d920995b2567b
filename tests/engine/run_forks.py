"""Runs inside the serving image: imports the engine once, and runs each script as a fork of that.

A line of JSON on standard input is a script's words and mounts; so is the answer on
standard output. A script has what a container of its own would give it: it is process 1 of its tree, whose end ends the
others, its temporary folders are empty, and it sees its mounts alone. Needs the right to mount.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

FIRST = (
    "transformers",
    "vllm.entrypoints.llm",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.model_executor.models.llama",
    "vllm.v1.engine.core",
    "vllm.v1.engine.llm_engine",
    "vllm.v1.worker.cpu_worker",
)
"""Modules that most scripts import, none of ours: one script looks at what an import of ours changes."""
OF_IMPORTS = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_LOGGING_STREAM": "ext://sys.stderr", "TORCHDYNAMO_DISABLE": "1"}
"""Read while vLLM is imported. The image has no compiler, so torch is to compile none of its functions at first use."""
DESCRIBED = "/opt/windlass/engine-models/modelinfos"
KEPT = "/engine-cache"
"""vLLM's cache of all scripts, with the image's descriptions of model classes: else each costs another Python."""
EMPTY = ("/tmp", "/dev/shm", "/cache")
NEW_MOUNTS, NEW_PIDS = 0x00020000, 0x20000000
BIND, READ_ONLY, REMOUNT, RECURSIVE, PRIVATE = 4096, 1, 32, 16384, 1 << 18
LIBC = ctypes.CDLL(None, use_errno=True)
TIMED_OUT = 124


def checked(code: int, what: str) -> None:
    """OSError for a call of the C library that failed."""
    if code:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, flags: int, kind: str | None = None) -> None:
    """Mount one folder or file system."""
    found = LIBC.mount(source.encode(), target.encode(), kind.encode() if kind else None, flags, None)
    checked(found, f"mount {source} at {target}")


def lay_out(mounts: dict[str, str]) -> None:
    """Give the calling process, which has new namespaces, its own folders."""
    mount("none", "/", RECURSIVE | PRIVATE)
    mount("proc", "/proc", 0, "proc")
    for folder in EMPTY:
        mount("tmpfs", folder, 0, "tmpfs")
    for source, target in {KEPT: "/cache/vllm", **mounts}.items():
        folder, _, right = target.partition(":")
        Path(folder).mkdir(parents=True, exist_ok=True)
        mount(source, folder, BIND)
        if right == "ro":
            mount(source, folder, BIND | REMOUNT | READ_ONLY)


def begin(job: dict[str, Any]) -> None:
    """Fork into new namespaces, and return in the script's process. The one between waits, and ends as that does."""
    os.setsid()
    checked(LIBC.unshare(NEW_MOUNTS | NEW_PIDS), "unshare")
    if script := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(script, 0)[1]) % 256)
    lay_out(job["mounts"])


def redirect(job: dict[str, Any]) -> None:
    """Standard streams are files, which the host reads."""
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        opened = os.open(f"{job['answers']}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def ended(pid: int, timeout_s: float) -> int:
    """A script's exit code; one that takes too long is killed with its tree."""
    handle = os.pidfd_open(pid)
    if not select.select([handle], [], [], timeout_s)[0]:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return TIMED_OUT
    os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def next_script() -> list[str]:
    """Serve until the input ends; returns in the process of a script, with its words."""
    for line in sys.stdin:
        job = json.loads(line)
        if pid := os.fork():
            print(json.dumps(ended(pid, job["timeout_s"])), file=REPLIES, flush=True)
            continue
        redirect(job)
        begin(job)
        return job["words"]
    sys.exit()


def run(words: list[str]) -> int:
    """The exit code of a program or a file, with its own words, as Python runs them."""
    os.chdir("/tmp")
    sys.argv = list(words)
    try:
        if words[0] == "-c":
            sys.path[0] = ""
            exec(sys.argv.pop(1), {"__name__": "__main__"})  # noqa: S102 - as Python does
        else:
            sys.path[0] = str(Path(words[0]).parent)
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def end(code: int) -> NoReturn:
    """End as Python does, but leave what is imported where it is: to take it apart lasts three seconds."""
    threading._shutdown()  # type: ignore[attr-defined]  # it wakes the threads of pools, and waits for all
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


os.environ |= OF_IMPORTS
REPLIES = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
shutil.copytree(DESCRIBED, f"{KEPT}/modelinfos")
for module in FIRST:
    importlib.import_module(module)
for name in OF_IMPORTS:
    del os.environ[name]
gc.collect()
gc.freeze()  # else each fork's collector copies all of it
script = next_script()
REPLIES.close()
end(run(script))
