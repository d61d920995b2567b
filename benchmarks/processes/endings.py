"""Asks one engine of each method to end, as a rollout does, and prints how many seconds its processes took.

    export PYTHONPATH=server/src:lib/base/src:lib/sizing/src
    python benchmarks/processes/endings.py WORK [--only fp8 none] [--rounds 1]

The engines are `windlass run` with the demo's model. All start at once on one card, each gives an answer and is idle.
Then one after the other gets SIGTERM. `windlass run` kills an engine that has not ended after 20 s, and the engine's
own teardown is skipped then. Of an engine that stays for more than some seconds, the table's last column has what its
core does with the signal, and its log has the stacks of all threads where py-spy is installed. Exit status 1 where an
engine did not end by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "quantization"))

import httpx
import keeper
from beside import ROOT, plugin

DEMO = ROOT / "models/demo"
DRAFTS = ("--num-speculative-tokens", "4")
METHODS: dict[str, tuple[str, ...]] = {
    "none": (),
    "fp8_per_channel": ("--quantization", "fp8_per_channel"),
    "fp8": ("--quantization", "fp8"),
    "ifq": ("--quantization", "ifq"),
    "ifq_nf4": ("--quantization", "ifq_nf4"),
    "lookahead": ("--use-lookahead", *DRAFTS),
    "fp8+lookahead": ("--quantization", "fp8", "--use-lookahead", *DRAFTS),
    "draft_model": ("--speculative-model", str(DEMO), *DRAFTS),
    "draft_model+lookahead": ("--speculative-model", str(DEMO), *DRAFTS, "--use-lookahead"),
    "draft_model-host": ("--speculative-model", str(DEMO), *DRAFTS, "--cpu-draft-worker"),
}
PROGRAM = "from windlass.cli.main import main; main()"
NAME, FIRST_PORT, LOG = "demo", 18701, "log"
SMALL = (
    "--max-model-len", "512", "--max-num-seqs", "8", "--api-server-count", "1", "--dtype", "float16",
    "--gpu-memory-utilization", "0.05", "--kv-cache-memory-bytes", str(2**28),
)  # fmt: skip
START_S_MAX, END_S_MAX = 400, 40
LOOK_S = 8.0
"""An engine that stays for longer is looked at. torch and CUDA take 4 to 6 s to leave a process without our kernels."""
QUIET = {
    "WINDLASS_LICENSE_REQUIRED": "false", "WINDLASS_FIRST_CHAT": "false", "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0",
}  # fmt: skip
HEAD = "| method | seconds | core's | core heard it | killed | where it stayed |\n| --- | --- | --- | --- | --- | --- |"


@dataclass(slots=True)
class Ending:
    """One engine's end: seconds from SIGTERM until each process was gone, and what the core said of it."""

    method: str
    seconds: float | None = None
    core_s: float | None = None
    was_told: bool = False
    was_killed: bool = False
    stayed: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the engine's core heard the signal and ended by itself."""
        return self.was_told and not self.was_killed and self.seconds is not None


def masks(pid: int) -> dict[str, int]:
    """SigBlk, SigCgt, SigIgn and pending signals of a process's or a thread's status, as bit masks."""
    text = Path(f"/proc/{pid}/status").read_text()
    rows = (line.partition(":") for line in text.splitlines() if line.startswith(("Sig", "ShdPnd")))
    return {name: int(value, 16) for name, _, value in rows if name != "SigQ"}


def has(mask: int, number: signal.Signals) -> bool:
    """Whether the mask names the signal."""
    return bool(mask >> (number - 1) & 1)


def main_thread(pid: int) -> str:
    """Kernel function that the core's main thread waits in, and its action on SIGTERM."""
    found = masks(pid)
    kinds = {"blocked": "SigBlk", "handled": "SigCgt", "ignored": "SigIgn", "pending": "ShdPnd"}
    words = [word for word, row in kinds.items() if has(found[row], signal.SIGTERM)]
    return f"in {Path(f'/proc/{pid}/wchan').read_text() or '?'}; SIGTERM is {', '.join(words) or 'as by default'}"


def core_of(pid: int) -> int | None:
    """The engine's core among the processes below."""
    for one in keeper.descendants(pid):
        with contextlib.suppress(OSError):
            if b"EngineCore" in Path(f"/proc/{one}/cmdline").read_bytes():
                return one
    return None


def start(method: str, port: int, folder: Path) -> subprocess.Popen[bytes]:
    """`windlass run` behind a keeper; what it says goes into a file of the folder. Our kernels are compiled anew."""
    words = ["run", "--model", str(DEMO), "--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port)]
    words += [*SMALL, *METHODS[method]]
    folders = (plugin(folder / "beside"), *(ROOT / f"{one}/src" for one in ("server", "lib/base", "lib/sizing")))
    own = {"PYTHONPATH": ":".join([*map(str, folders), os.environ.get("PYTHONPATH", "")])}
    own |= {"WINDLASS_FACTS_PORT": str(port + 100), "XDG_CACHE_HOME": str(folder / "home")}
    own |= {"VLLM_CACHE_ROOT": str(folder / "cache")}
    shutil.rmtree(folder / "cache/windlass-kernels", ignore_errors=True)
    with (folder / LOG).open("wb") as log:
        return keeper.start(
            [sys.executable, "-c", PROGRAM, *words], stdout=log, stderr=log, env=os.environ | QUIET | own
        )


def answers(server: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until it serves, and ask for one answer."""
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + START_S_MAX
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health", timeout=5).is_success:
                body = {"model": NAME, "prompt": "Hello, who are you?", "max_tokens": 24, "ignore_eos": True}
                return httpx.post(f"{url}/v1/completions", json=body, timeout=120).is_success
        time.sleep(0.5)
    return False


def end(found: Ending, server: subprocess.Popen[bytes], log: Path) -> None:
    """Send SIGTERM, and note when the core and the whole were gone."""
    core = core_of(server.pid)
    if core is None:
        found.stayed = "no process is named EngineCore"
        return
    begun = time.monotonic()
    server.terminate()
    while server.poll() is None and time.monotonic() - begun < END_S_MAX:
        time.sleep(0.02)
        now = time.monotonic() - begun
        is_there = Path(f"/proc/{core}").exists()
        if not is_there and found.core_s is None:
            found.core_s = now
        if is_there and now > LOOK_S and not found.stayed:
            found.stayed = main_thread(core)
            write_stacks(core, log)
    found.seconds = time.monotonic() - begun if server.poll() is not None else None


def write_stacks(core: int, log: Path) -> None:
    """Append the stacks of all threads of a core that stays to the engine's log."""
    if program := shutil.which("py-spy"):
        with log.open("ab") as file:
            words = [program, "dump", "--native", "--pid", str(core)]
            subprocess.run(words, check=False, stdout=file, stderr=file, timeout=30)


@dataclass(frozen=True, slots=True)
class Server:
    """A running engine of a method, its port and its folder."""

    method: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def started(methods: Sequence[str], work: Path) -> Iterator[list[Server]]:
    """All servers; what is left of them ends with the block."""
    found = []
    for at, method in enumerate(methods):
        (folder := work / f"{at}-{method}").mkdir(parents=True, exist_ok=True)
        port = FIRST_PORT + at
        found.append(Server(method, port, folder, start(method, port, folder)))
    try:
        yield found
    finally:
        for server in found:
            server.process.terminate()
        for server in found:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(keeper.PATIENCE_S + 20)


def endings(methods: Sequence[str], work: Path) -> Iterator[Ending]:
    """Start an engine for each word, ask all, and end one after the other."""
    with started(methods, work) as servers:
        with ThreadPoolExecutor(len(servers)) as pool:
            are_ready = list(pool.map(lambda server: answers(server.process, server.port), servers))
        for server, is_ready in zip(servers, are_ready, strict=True):
            found, log = Ending(server.method), server.folder / LOG
            if is_ready:
                end(found, server.process, log)
            else:
                found.stayed = f"it did not serve; see {log}"
            text = log.read_text(errors="replace")
            found.was_told = "EngineCore: trigger received signal" in text
            found.was_killed = "it is killed" in text or "force killing" in text
            yield found


def line(found: Ending) -> str:
    """A row of the table."""
    seconds, core_s = (f"{value:.1f}" if value is not None else "–" for value in (found.seconds, found.core_s))
    words = "yes" if found.was_told else "no", "yes" if found.was_killed else "no"
    return f"| {found.method} | {seconds} | {core_s} | {' | '.join(words)} | {found.stayed} |"


def main() -> None:
    """All methods at once, round by round; a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for logs and caches")
    parser.add_argument(
        "--only", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD", help="may repeat"
    )
    parser.add_argument("--rounds", type=int, default=1, help="starts and ends of all of them")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    print(HEAD)
    failed = 0
    for _ in range(arguments.rounds):
        for found in endings(arguments.only, arguments.work):
            failed += not found.is_good
            print(line(found), flush=True)
    sys.exit(f"{failed} engines did not end by themselves" if failed else 0)


if __name__ == "__main__":
    main()
