"""Running programs: output goes to a log file, a failure becomes one sentence, a phase prints its seconds."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed.errors import BedError
from windlass_testbed.paths import paths


@dataclass(frozen=True, slots=True)
class Hint:
    """A text that a tool prints when it fails, and what it means for the person at the keyboard."""

    needle: str
    sentence: str


HINTS: tuple[Hint, ...] = (
    Hint("no space left on device", "The disk is full: free about 30 GB, or point WINDLASS_CACHE at a larger disk."),
    Hint("permission denied", "A permission is missing: the test cluster needs root (sudo make …)."),
    Hint("port is already allocated", "Another program holds the port: stop it, or run `make cluster-delete` first."),
    Hint("address already in use", "Another program holds the address: stop it, or run `make cluster-delete` first."),
    Hint("Cannot connect to the Docker daemon", "Our Docker daemon is not running: run `make cluster` again."),
    Hint("unable to apply caps", "The machine lacks a capability that containers ask for; see docs/how-to/cluster.md."),
    Hint("too many open files", "inotify or file limits are too low: raise fs.inotify.max_user_instances to 512."),
    Hint("already exist for a cluster", "A cluster of this name is left over: run `make cluster-delete` first."),
    Hint("certificate signed by unknown authority", "TLS is re-signed here: set SSL_CERT_FILE to the CA bundle."),
    Hint("Temporary failure resolving", "Debian's mirror cannot be reached: check the network or apt's sources."),
    Hint("dial tcp", "A package index cannot be reached: check the network, GOPROXY or proxy settings."),
)


class Progress:
    """Lines about work of minutes, and a reminder of what is under way when a minute passes without one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_line = clock()
        self._work: dict[str, tuple[float, Callable[[], str]]] = {}
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """Print one line at once."""
        with self._lock:
            self._last_line = self._clock()
            print(text, flush=True)

    @contextmanager
    def working(self, title: str, detail: Callable[[], str] = str) -> Iterator[None]:
        """Name work that may take minutes, and print its seconds when it is done; `detail` tells how far it is."""
        self.say(f"  {title} …")
        started = self._clock()
        with self._lock:
            self._work[title] = (started, detail)
        try:
            yield
        finally:
            with self._lock:
                del self._work[title]
        self.say(f"  {title}: {self._clock() - started:.0f} s")

    def remind(self) -> None:
        """Print what is under way, when nothing was printed for a minute."""
        now = self._clock()
        with self._lock:
            rows = dict(self._work) if now - self._last_line >= SILENCE_S_MAX else {}
        if rows:
            lines = (f"{title}, {_minutes(now - at)}{' ' + detail()}".rstrip() for title, (at, detail) in rows.items())
            self.say(f"  … still {'; '.join(lines)}")


SILENCE_S_MAX = 60
PROGRESS = Progress()
say = PROGRESS.say
working = PROGRESS.working


def _minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


@contextmanager
def phase(title: str) -> Iterator[None]:
    """Print the title, run the block, then print its seconds; a minute is never without a line."""
    say(f"▸ {title} …")
    started, over = time.monotonic(), threading.Event()

    def remind() -> None:
        while not over.wait(1):
            PROGRESS.remind()

    reminding = threading.Thread(target=remind, daemon=True)
    reminding.start()
    try:
        yield
    finally:
        over.set()
        reminding.join()
    say(f"  {title}: {time.monotonic() - started:.0f} s")


def explain(output: str) -> str:
    """Return the sentence for the first known cause in a tool's output, else an empty string."""
    lowered = output.lower()
    return next((hint.sentence for hint in HINTS if hint.needle.lower() in lowered), "")


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    log: str = "commands",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: "str | None" = None,
) -> str:
    """Run a program to its end and return its standard output.

    The command is appended to the log of that name when it starts, its output when it ends. Raises BedError with the
    known cause, or the last lines, on failure.
    """
    logs = paths().logs
    logs.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in command]
    with (logs / f"{log}.log").open("a") as file:
        file.write(f"$ {' '.join(words)}\n")
    done = subprocess.run(
        words, capture_output=True, text=True, errors="replace", env=_merged(env), cwd=cwd, input=stdin, check=False
    )
    with (logs / f"{log}.log").open("a") as file:
        file.write(f"{done.stdout[-200_000:]}{done.stderr[-200_000:]}\n")
    if done.returncode:
        raise BedError(failure(words, done.returncode, done.stdout + done.stderr, logs / f"{log}.log"))
    return done.stdout


def pipe(
    source: Sequence[str | os.PathLike[str]],
    sink: Sequence[str | os.PathLike[str]],
    env: Mapping[str, str] | None = None,
) -> str:
    """Run `source | sink`; return what went wrong, or an empty string."""
    with subprocess.Popen([str(w) for w in source], stdout=subprocess.PIPE, env=_merged(env)) as first:
        words = [str(w) for w in sink]
        done = subprocess.run(words, stdin=first.stdout, capture_output=True, text=True, env=_merged(env), check=False)
        if first.stdout:
            first.stdout.close()  # a source that still writes ends now, rather than waiting for a reader for ever
    return (done.stderr.strip()[-400:] or f"exit {done.returncode}") if first.returncode or done.returncode else ""


def succeeds(command: Sequence[str | os.PathLike[str]], env: Mapping[str, str] | None = None) -> bool:
    """Tell whether a program exits with 0; what it prints is dropped."""
    done = subprocess.run([str(w) for w in command], capture_output=True, env=_merged(env), check=False)
    return done.returncode == 0


def failure(words: Sequence[str], code: int, output: str, log: Path) -> str:
    """Return the message of a failed program: its known cause or its last lines, and the log."""
    tail = " | ".join(line.strip() for line in output.strip().splitlines()[-4:])
    return f"{Path(words[0]).name} {' '.join(words[1:3])} failed ({code}): {explain(output)} {tail} (log: {log})"


def _merged(env: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, **(env or {})}


def fail(error: BedError) -> int:
    """Print an error as one paragraph on standard error and return the exit code."""
    print(f"windlass: {error}", file=sys.stderr, flush=True)
    return 1
