"""What the download Job runs: its options, its exit code and its last message.

It ends with 0 when it could tell something that another try does not change, good or bad; with 1 when the Job shall
try again.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from windlass_base.json_lines import say

from windlass_download.errors import Retry, UserError
from windlass_download.hubs import HUBS, wanted_from
from windlass_download.progress import Progress
from windlass_download.wanted import printable

TOKEN = "WINDLASS_HUB_TOKEN"  # noqa: S105 - a variable's name
AUTHORITIES = "WINDLASS_HUB_CA"
TERMINATION_LOG = "/dev/termination-log"
LINE_S = 10.0
PROGRAM, LOGGER = "windlass-download", "windlass_download"
MESSAGE_BYTES_MAX = 4000  # Kubernetes keeps 4096 of a termination message
CONNECTIONS_MAX = 64
WORDS_MAX = 1500  # characters of a reason; JSON may double them, and they fit all the same
DONE, AGAIN, EXIT_USAGE = 0, 1, 2

NUMBERS: tuple[tuple[str, float, float, float, str], ...] = (
    # flag, default, least, most, meaning
    ("--connections", 8, 1, CONNECTIONS_MAX, "parts fetched at a time"),
    ("--part-kib", 16384, 1, 1 << 20, "size of a part"),
    ("--stall-s", 30.0, 0.1, 3600, "seconds without a byte after which a connection is made anew"),
    ("--give-up-s", 600.0, 0, 86400, "seconds without any gain after which the Job starts again"),
    ("--stale-s", 60.0, 0.1, 3600, "seconds after which a claim that does not change is void"),
    ("--facts-port", 0, 0, 65535, "port of GET /windlass/facts; 0: none"),
)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Put a model from a hub onto a volume: verified, resumable, visible when it is whole. "
        f"The hub's token comes from {TOKEN}, proxies from HTTPS_PROXY, a CA bundle from SSL_CERT_FILE, and "
        f"more authorities, as PEM text, from {AUTHORITIES}.",
    )
    parser.add_argument("--root", type=Path, required=True, help="where the volume is mounted, writable")
    parser.add_argument("--path", default="", help="the model's directory inside the volume (default: its root)")
    parser.add_argument("--hub", required=True, choices=sorted(HUBS), help="whose protocol is spoken")
    parser.add_argument("--name", required=True, help="the model's name on the hub: OWNER/NAME")
    parser.add_argument("--revision", default="", help="branch, tag or commit (default: the hub's own)")
    parser.add_argument("--endpoint", default="", help="base URL of the hub or a mirror (default: the public one)")
    parser.add_argument("--include", action="append", default=[], metavar="GLOB", help="only these files; repeatable")
    parser.add_argument("--exclude", action="append", default=[], metavar="GLOB", help="not these files; repeatable")
    parser.add_argument("--verify", action="store_true", help="hash what is there, too")
    for flag, default, least, most, meaning in NUMBERS:
        kind = _number(least, most, type(default))
        parser.add_argument(flag, type=kind, default=default, metavar="N", help=f"{meaning} (default: {default:g})")
    parser.add_argument(
        "--termination-log",
        type=Path,
        default=None,
        help="file for the last message (default: WINDLASS_TERMINATION_LOG, else /dev/termination-log)",
    )
    return parser


def run(options: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Download; the exit code is for the Job controller, the termination message for the operator."""
    try:
        patterns = tuple(options.include), tuple(options.exclude)
        wanted = wanted_from(options.hub, options.name, options.revision, options.endpoint, *patterns)
    except ValueError as error:
        say(LOGGER, str(error), logging.ERROR, text=f"{PROGRAM}: {error}")
        return EXIT_USAGE
    from windlass_download.fetch import TransferLimits
    from windlass_download.job import Download, Order

    limits = TransferLimits(options.connections, options.part_kib << 10, options.give_up_s)
    order = Order(
        root=options.root,
        path=options.path,
        wanted=wanted,
        limits=limits,
        token=env.get(TOKEN, "").strip(),
        stall_s=options.stall_s,
        stale_s=options.stale_s,
        verify=options.verify,
        authorities=env.get(AUTHORITIES, "").strip(),
    )
    stop, progress = threading.Event(), Progress(time.monotonic)
    with _signals(stop), _reporting(progress, options.facts_port):
        code, report = _outcome(lambda: Download(order, progress, stop).run(), progress)
    words = printable(_words(report), MESSAGE_BYTES_MAX)
    say(LOGGER, words, text=f"download: {words}", report=report)
    return _leave(report, options.termination_log or Path(env.get("WINDLASS_TERMINATION_LOG") or TERMINATION_LOG), code)


def _outcome(work: Callable[[], Any], progress: Progress) -> tuple[int, dict[str, Any]]:
    from windlass_download.refusals import HubTrouble

    try:
        marker = work()
    except UserError as error:
        return DONE, {"ok": False, "reason": error.reason, "message": printable(error.message, WORDS_MAX)}
    except Retry as error:
        reason = "HubUnreachable" if isinstance(error, HubTrouble) else "DownloadFailed"
        return AGAIN, {"ok": False, "reason": reason, "message": printable(f"{error}; the Job tries again", WORDS_MAX)}
    told = {"hub": marker.wanted.hub, "name": marker.wanted.name, "revision": marker.wanted.revision}
    counted = {"files": len(marker.listing.files), "bytesTotal": marker.listing.size}
    fetched = {"commit": marker.listing.commit, "bytesFetched": progress.bytes_fetched}
    return DONE, {"ok": True, "download": {**told, **counted, **fetched}}


def _words(report: Mapping[str, Any]) -> str:
    if not report["ok"]:
        return f"{report['reason']}: {report['message']}"
    told = report["download"]
    return (
        f"complete: {told['name']}, {told['files']} files, {told['bytesTotal']} bytes, {told['bytesFetched']} fetched"
    )


def _leave(report: dict[str, Any], log: Path, code: int) -> int:
    """Write the last message where the kubelet picks it up; WORDS_MAX keeps it within what that reads."""
    line = json.dumps(report)
    try:
        log.write_text(line, encoding="utf-8")
    except OSError as error:
        words = f"{log} cannot be written: {error.strerror}"
        say(LOGGER, words, logging.ERROR, text=f"{PROGRAM}: {words}")
        return AGAIN
    return code


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """End in order when the pod is deleted: the claim is given back, so that the next one begins at once."""
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _reporting(progress: Progress, port: int) -> Iterator[None]:
    """A line every ten seconds, and the facts port."""
    from windlass_download.facts import serve

    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(LINE_S):
            say(LOGGER, progress.line())

    server = None
    if port:
        try:
            server = serve(port, progress.facts)
        except OSError as error:
            words = f"no facts on port {port}: {error.strerror}"
            say(LOGGER, words, logging.WARNING, text=f"download: {words}")
    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if server is not None:
            server.shutdown()
            server.server_close()


def _number(least: float, most: float, kind: type) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value: float = kind(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f'"{text}" is not a number from {least} to {most}')
        return value

    return parse
