"""The attacks of the license server in figures, for one version of it: `python tests/attack/license/figures.py`.

WINDLASS_ATTACK_SOURCE names the `src` directory of another version's license_server. The same attacks as in the tests
beside this file, larger, and counted instead of judged; its lines are the table of docs/attack/license.md.
"""

import contextlib
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from siege import Castle, ask, body, castle, current, gpu
from windlass_testbed.waiting import HANG_S

MIB = 1024


def memory(held: Castle) -> float:
    """Resident memory now, in MiB."""
    rows = Path(f"/proc/{held.up.process.pid}/status").read_text().splitlines()
    return float(next(row.split()[1] for row in rows if row.startswith("VmRSS"))) / MIB


def slices(folder: Path) -> str:
    """Finding 3: 400 requests of 1,024 invented slices of one GPU, then a restart."""
    with castle(folder) as held:
        held.license()
        before, answers = memory(held), []
        names = [f"MIG-{gpu(0)}/{number}/{'x' * 20}" for number in range(1024)]
        for number in range(400):
            answers.append(ask(held.up, body(names, f"uid-{number}"), f"127.0.2.{number % 200 + 1}")[0])
        after, restart_s = memory(held), held.restart()
        return (
            f"{answers.count(200)} of 400 granted; memory {before:.0f} → {after:.0f} MiB; "
            f"restart {restart_s:.1f} s, {memory(held):.0f} MiB"
        )


def audit(folder: Path) -> str:
    """Finding 4: 300 refused requests of 131 KB against an audit log of 16 MiB."""
    with castle(folder, "--audit-mib", "16") as held:
        held.license()
        ask(held.up, body([gpu(0)], "healthy"))
        before, names = memory(held), [f"GPU-{number:0119d}" for number in range(1000)]
        for number in range(300):
            ask(held.up, body(names, f"uid-{number}"), f"127.0.2.{number % 200 + 1}")
        events = held.events()
        kept = [event for event in ("uploaded", "granted") if event in events]
        return f"left of upload and grant: {kept or 'nothing'}; memory {before:.0f} → {memory(held):.0f} MiB"


def halves(folder: Path) -> str:
    """Finding 12: 1,000 half connections from ten addresses with 512 file descriptors."""
    with castle(folder, files=512) as held:
        held.license()
        lines = []
        for number in range(1000):
            with contextlib.suppress(OSError):
                source = (f"127.0.2.{number % 10 + 1}", 0)
                line = socket.create_connection((held.up.host, held.up.port), HANG_S, source_address=source)
                lines.append(line)
                line.sendall(b"POST /v1/leases HTTP/1.1\r\nX: ")
        begun = time.monotonic()
        try:
            status = ask(held.up, body([gpu(0)], "healthy"), "127.0.1.1", timeout_s=HANG_S)[0]
        except OSError as error:
            status = f"no answer ({type(error).__name__})"
        for line in lines:
            line.close()
        return f"a healthy pod's answer: {status} after {time.monotonic() - begun:.1f} s"


def neighbours(folder: Path) -> str:
    """Finding 5, without tokens: renew by a neighbour's uid, delete by the id that was told, names in refusals."""
    with castle(folder) as held:
        held.license(limit=1)
        ask(held.up, body([gpu(0)], "uid-a", "pod-a"))
        _, stolen = ask(held.up, body([gpu(0)], "uid-a", "thief"))
        _, refused = ask(held.up, body([gpu(1)], "uid-b"))
        view = b"uuid" in held.up.get("/ls/view")
        named = "siege/pod-a" in str(refused["message"])
        return f"uid known: {stolen['state']}; a refusal names the holder: {named}; open view has UUIDs: {view}"


def damage(folder: Path) -> str:
    """Low: a database cut in the middle."""
    with castle(folder) as held:
        held.license()
        held.up.process.terminate()
        held.up.process.wait(30)
        held.stop()
        file = folder / "data" / "license.sqlite3"
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        try:
            held.start()
        except RuntimeError as error:
            said = str(error)
            return "a traceback" if "Traceback" in said else said.strip().splitlines()[-1][:160]
        return "started"


def steering(folder: Path) -> str:
    """Low: C1 controls and U+2028 in a pod's name, on standard output."""
    with castle(folder) as held:
        held.license()
        ask(held.up, body([gpu(0)], "u\x9b31m\u2028", "p\x85"))
        held.stop()
        out = (folder / "audit.out").read_bytes()
        return f"{sum(not (byte == 10 or 32 <= byte < 127) for byte in out)} bytes that are not printable ASCII"


ATTACKS: tuple[tuple[str, Callable[[Path], str]], ...] = (
    ("3 slices", slices),
    ("4 audit", audit),
    ("5 neighbours", neighbours),
    ("12 half connections", halves),
    ("low: damage", damage),
    ("low: steering", steering),
)


def main() -> int:
    """Run all of them."""
    print(json.dumps({"this checkout": current()}))
    for name, attack in ATTACKS:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name}: {attack(Path(folder))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
