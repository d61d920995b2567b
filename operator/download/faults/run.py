"""`make crash-download`: kill the download at random bytes and hold it to what it promises.

    --kills N     kill -9 while it fetches and publishes, then resume; half of them with a hub that has every bad habit
    --owners N    that many processes at once, all sure to own the target, on a hub that damages bytes

After each: what lies in the target is a whole revision or none, a reader that looks all the time never found half of
one, and no more was fetched than the size and a part for each killed connection. Exits 1 when a promise was broken.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/download"))
from hub import Fault, Hub, Seen
from processes import Reader, Zygote

NAME = "qwen/Qwen2-Tiny"
PART_KIB, CONNECTIONS = 64, 4
SHARD_BYTES = 4_000_000
KILLS_EACH, TOGETHER = 5, 3


@dataclass
class History:
    """Many lives of downloads into one target, each download another revision of the model."""

    chance: random.Random
    hub: Hub
    volume: Path
    path: str  # empty: the root, which cannot be renamed
    zygote: Zygote
    wrong: list[str] = field(default_factory=list)
    kills: int = 0
    downloads: int = 0
    looks: int = 0
    models: int = 0
    longest_resume_s: float = 0.0

    def words(self, revision: str, path: str) -> list[str]:
        """The command."""
        words = [f"--root={self.volume}", f"--path={path}", f"--endpoint={self.hub.url}"]
        words += [
            "--hub=huggingface",
            f"--name={NAME}",
            f"--revision={revision}",
            f"--part-kib={PART_KIB}",
            f"--connections={CONNECTIONS}",
        ]
        return [*words, "--stale-s=0.3", "--stall-s=1", "--give-up-s=60", f"--termination-log={self.volume}.log"]

    def one(self, kills: int, faults: bool) -> None:
        """A new revision over the last one, killed that many times."""
        self.downloads += 1
        revision, files = f"r{self.downloads}", a_revision(self.chance)
        self.hub.models[NAME][revision] = files
        before = self.hub.models[NAME].get(f"r{self.downloads - 1}")
        self.hub.fault = self._bad_habits if faults else lambda _: None
        self.hub.ranges = not faults or self.chance.random() < 0.7
        size, sent, words = sum(map(len, files.values())), self.hub.sent, self.words(revision, self.path)
        with Reader(self.volume / self.path, files, *([before] if before else [])) as reader:
            for _ in range(kills):
                self._life(words, size // kills)
            began, code = time.monotonic(), self.zygote.run(words)
            self.longest_resume_s = max(self.longest_resume_s, time.monotonic() - began)
        self._judge(revision, files, self.path, reader, [code])
        most = size + kills * CONNECTIONS * (PART_KIB << 10)
        if not faults and self.hub.sent - sent > most:
            self.wrong.append(f"{revision}: {self.hub.sent - sent} bytes were fetched, {most} are allowed")

    def _judge(self, what: str, files: dict[str, bytes], path: str, reader: Reader, codes: list[int]) -> None:
        self.looks, self.models = self.looks + reader.looks, self.models + reader.models
        self.wrong += reader.wrong
        damaged = [one for one in files if _read(self.volume / path / one) != files[one]]
        if any(codes) or damaged:
            self.wrong.append(f"{what} ended with {codes}; not whole: {damaged}")

    def _life(self, words: list[str], size: int) -> None:
        """A life that ends at a random byte, or a random moment after the last one."""
        until, late_s = self.hub.sent + self.chance.randrange(1, 2 * size), self.chance.choice((0, 0, 0.02, 0.1))
        pid, reached = self.zygote.start(words), threading.Event()

        def due() -> bool:
            if self.hub.sent >= until and not reached.is_set():
                reached.set()
                time.sleep(late_s)
            return reached.is_set()

        self.kills += self.zygote.kill_when(pid, due) < 0

    def _bad_habits(self, seen: Seen) -> Fault | None:
        """One request in eight goes wrong; listings only with what passes."""
        if self.chance.random() > 0.125:
            return None
        if not seen.file and seen.host == "hub":
            return Fault(503)
        act = self.chance.choice(("cut", "cut", "stall", "429", "500"))
        return Fault(int(act)) if act.isdigit() else Fault(act=act, after=self.chance.randrange(100_000))

    def together(self, path: str, owners: int) -> None:
        """Several processes that all believe to own the target; the hub damages each file once."""
        files, damaged = a_revision(self.chance), set[str]()
        self.hub.models[NAME]["shared"] = files

        def damage(seen: Seen) -> Fault | None:
            if not seen.file.startswith("model") or seen.file in damaged or self.chance.random() < 0.5:
                return None
            damaged.add(seen.file)
            return Fault(act="corrupt", after=self.chance.randrange(100_000))

        self.hub.fault, self.hub.redirects, self.hub.ranges = damage, False, True
        with Reader(self.volume / path, files) as reader:
            pids = [self.zygote.start(self.words("shared", path), lying=True) for _ in range(owners)]
            codes = [self.zygote.wait(pid) for pid in pids]
        self.hub.redirects = True
        self._judge(f"{owners} owners at {path}", files, path, reader, codes)


def a_revision(chance: random.Random) -> dict[str, bytes]:
    """A model whose files all differ from any other's."""
    files = {f"model-{n}.safetensors": chance.randbytes(SHARD_BYTES + chance.randrange(9999)) for n in range(3)}
    return {"config.json": chance.randbytes(300).hex().encode(), "tokenizer.json": chance.randbytes(90_000), **files}


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def run(folder: Path, path: str, kills: int, owners: int, seed: int) -> list[str]:
    """One history; the sentences about broken promises."""
    volume, began = folder / f"volume-{path.replace('/', '-')}", time.monotonic()
    volume.mkdir()
    with Hub({NAME: {}}) as hub, Zygote() as zygote:
        history = History(random.Random(seed), hub, volume, path, zygote)
        while history.kills < kills and not history.wrong:
            history.one(KILLS_EACH, faults=history.downloads % 2 == 1)
            print(f"{history.kills} of {kills} kills, {history.downloads} downloads", flush=True)
        for number in range(TOGETHER if owners else 0):
            history.together(f"shared-{number}", owners)
    print(
        f"into {'a directory' if path else 'the root of a volume'}: {history.kills} kills in {history.downloads} "
        f"downloads, {hub.sent / 1e6:.0f} MB sent, longest resume {history.longest_resume_s:.1f} s; "
        f"{history.looks} looks found {history.models} models; {TOGETHER} times {owners} owners at once; "
        f"{len(history.wrong)} promises broken; {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return history.wrong


def main() -> int:
    """Parse, run, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--owners", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broken = [
            sentence
            for path in ("models/tiny", "")
            for sentence in run(Path(folder), path, options.kills // 2, options.owners, options.seed)
        ]
    for sentence in broken:
        print(sentence)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
