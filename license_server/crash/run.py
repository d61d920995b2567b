"""`make crash-license`: kill the server in the middle of grants, start it again, and hold it to every promise.

    --kills N   kill -9; the operating system lives on, so that what was written is there
    --cuts N    the power goes: what was not synced is lost, as a whole or in part (`disk.py`)
    --synchronous LEVEL   run the server with less durability than it has, to see that the losses are found

After each: the database is whole, no more GPUs are leased than the limit, every lease that a pod was promised is still
that pod's, and every grant and release that was acknowledged is in the audit log. Exits 1 when a promise was broken.
"""

import argparse
import asyncio
import json
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
from disk import Loss, build_recorder, cut_power, recording
from license_process import Server, license_file, started
from pods import GPUS, LIMIT, Acknowledged, Line, Pod, all_pods, check_held, live

FLAGS = ("--ttl-seconds", "86400", "--requests-per-peer", "0", "--connections-per-peer", "1000")
LONGEST_LIFE_S = 0.5


@dataclass
class History:
    """One license server over many lives."""

    folder: Path
    chance: random.Random
    key: Ed25519PrivateKey
    pods: list[Pod]
    wrapper: tuple[str, ...] = ()
    acknowledged: Acknowledged = field(default_factory=Acknowledged)
    wrong: list[str] = field(default_factory=list)
    unsafe: int = 0
    longest_life_s: float = LONGEST_LIFE_S
    lived_s: float = 0.0
    """Seconds in which pods asked."""

    def life(self, environment: dict[str, str] | None = None) -> None:
        """Start, check what was promised before, promise more, and be killed."""
        server = started(self.folder, self.key, FLAGS, self.wrapper, environment)
        try:
            asyncio.run(self._live(server))
        finally:
            server.process.kill()
            server.process.wait()
        self._look_into_the_file()

    def life_with_power_cut(self, library: Path, loss: Loss) -> None:
        """A life at whose end the disk is left with what was synced."""
        data, before, journal = self.folder / "data", self.folder / "before", self.folder / "journal"
        data.mkdir(exist_ok=True)
        shutil.copytree(data, before)
        self.life(recording(library, data, journal))
        self.unsafe += cut_power(data, before, journal, loss, self.chance)
        shutil.rmtree(before)
        journal.unlink()
        self._look_into_the_file()

    async def _live(self, server: Server) -> None:
        lines = [Line(*await asyncio.open_connection(server.host, server.port)) for _ in self.pods]
        if (await lines[0].call("POST", "/v1/leases", self.pods[0].body()))[1].get("reason") == "NoLicense":
            if self.acknowledged.granted:
                self.wrong.append("the license is lost")
            await asyncio.to_thread(server.upload, license_file(self.key, GPUS, LIMIT))
        self.wrong += await check_held(lines[0], self.pods, self.acknowledged)
        killing = asyncio.get_running_loop().call_later(
            self.chance.uniform(0.02, self.longest_life_s), server.process.send_signal, signal.SIGKILL
        )
        lives = (live(line, pod, self.acknowledged, self.chance) for line, pod in zip(lines, self.pods, strict=True))
        begun = time.monotonic()
        ends = await asyncio.gather(*lives, return_exceptions=True)
        self.lived_s += time.monotonic() - begun
        killing.cancel()
        self.wrong += [repr(end) for end in ends if not isinstance(end, OSError | EOFError)]

    def _look_into_the_file(self) -> None:
        """Read the dead server's database: whole, within the limit, with every acknowledged record."""
        copy = self.folder / "copy"
        shutil.copytree(self.folder / "data", copy)
        for shared in copy.glob("*-shm"):
            shared.unlink()
        database = sqlite3.connect(copy / "license.sqlite3")
        try:
            self._judge(database)
        except sqlite3.DatabaseError as error:
            self.wrong.append(f"the database is damaged: {error}")
        finally:
            database.close()
            shutil.rmtree(copy)

    def _judge(self, database: sqlite3.Connection) -> None:
        if (verdict := database.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
            self.wrong.append(f"the database is damaged: {verdict}")
        leased = {gpu for (gpus,) in database.execute("SELECT gpus FROM leases") for gpu in json.loads(gpus)}
        if len(leased) > LIMIT:
            self.wrong.append(f"{len(leased)} GPUs are leased, the limit is {LIMIT}")
        records = [json.loads(record) for (record,) in database.execute("SELECT record FROM audit")]
        for event, leases in (("granted", self.acknowledged.granted), ("released", self.acknowledged.released)):
            missing = leases - {record["lease"] for record in records if record["event"] == event}
            self.wrong += [f"the audit log has no record that {lease} was {event}" for lease in missing]


def run(folder: Path, kills: int, cuts: int, seed: int, synchronous: str | None = None) -> list[str]:
    """Two histories, one of kills and one of power cuts; the sentences about what did not hold."""
    broken = []
    wrapper = (sys.executable, str(Path(__file__).with_name("weakened.py")), synchronous) if synchronous else ()
    for name, count in (("kill -9", kills), ("power cut", cuts)):
        home = folder / name.replace(" ", "-")
        home.mkdir()
        history = History(home, random.Random(seed), Ed25519PrivateKey.generate(), all_pods(seed), wrapper)
        library = build_recorder(home) if name == "power cut" else None
        for number in range(count):
            if library is None:
                history.life()
            else:
                history.life_with_power_cut(library, (Loss.ALL, Loss.SOME)[number % 2])
            if history.wrong:
                break
            if number % 10 == 9:
                print(f"{name}: {number + 1} of {count}", flush=True)
        made = history.acknowledged
        print(
            f"{name}: {count} times, {made.requests} requests acknowledged, {len(made.granted)} grants, "
            f"{len(made.released)} releases, {history.unsafe} operations were not synced; "
            f"{len(history.wrong)} promises broken",
            flush=True,
        )
        broken += history.wrong
    return broken


def main() -> int:
    """Run both and print what broke."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--synchronous", choices=["OFF", "NORMAL"])
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        broken = run(Path(folder), options.kills, options.cuts, options.seed, options.synchronous)
    print("\n".join(broken[:20]) or "every promise was kept")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
