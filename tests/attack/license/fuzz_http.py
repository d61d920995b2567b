"""A fuzzer of the license server's HTTP: requests made of hostile parts, against the real process.

    WINDLASS_FUZZ_EXAMPLES   how many requests (default 300); WINDLASS_FUZZ_SEED  where chance begins

Whatever is sent, the server goes on: no 5xx but 503, no traceback in its log, bounded memory, nothing but printable
ASCII on standard output, no more leases of a GPU than its cap, and a healthy pod renews. On version dde1513 it finds
that invented slices are granted (finding 3) and that refusals push the grants out of the audit log (finding 4).
"""

import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from siege import GPUS, Castle, ask, body, castle, current, gpu, send
from windlass_testbed.attacks import record

EXAMPLES = int(os.environ.get("WINDLASS_FUZZ_EXAMPLES", "300"))
MEMORY_MIB = 256
CAP = 48

Chance = random.Random
WORDS = (
    "",
    "\x00",
    "\x85",
    "\u2028",
    "\ud7ff",
    "\U0010ffff",
    "../..",
    "%0a",
    "'; DROP TABLE leases;--",
    "x" * 300,
    "1e999",
    "null",
)
METHODS = ("GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PATCH", "G\x00T", "x" * 40)
PATHS = (
    *(
        "/",
        "/ls",
        "/ls/view",
        "/ls/file",
        "/ls/audit?limit=10000",
        "/ls/audit?since=0001-01-01T00:00:00Z",
        "/v1/leases",
        "/metrics",
    ),
    *("/v1/leases/" + "a" * 64, "/ls?allowOlder=true", "/ls%0a", "//ls", "/%ff", "*", "http://x/ls", "/" + "x" * 9000),
)
HEADERS = (
    "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999", "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 5", "Expect: 100-continue", "Connection: upgrade\r\nUpgrade: h2",
    "Authorization: Bearer x", "Authorization: \xff", "X: " + "y" * 9000, "Content-Type: multipart/form-data",
)  # fmt: skip


def names(chance: Chance, count: int) -> list[str]:
    """Devices of one kind: a request is refused as a whole, so that hostile ones would hide the others."""
    kind = chance.randrange(7)
    return [device(chance, kind) for _ in range(count)]


def device(chance: Chance, kind: int) -> str:
    """A name that is licensed, nearly licensed, or nonsense."""
    card = gpu(chance.randrange(GPUS))
    kinds: tuple[Callable[[], str], ...] = (
        lambda: card,
        lambda: f"MIG-{card}/{chance.randrange(16)}/{chance.randrange(8)}",
        lambda: f"MIG-{card}/{chance.randrange(20)}/{chance.randrange(10)}",
        lambda: f"MIG-{card}/{chance.randrange(10**9)}/0",
        lambda: f"MIG-{card}/invented-{chance.randrange(10**6)}",
        lambda: f"GPU-{chance.randrange(10**12)}",
        lambda: card + chance.choice(WORDS),
    )
    return kinds[kind]()


def lease(chance: Chance, number: int) -> bytes:
    """A lease request with parts that nobody would send."""
    count = chance.choice((0, 1, 1, 2, 8, 64, 65, 400, 1000))
    gpus: object = names(chance, count)
    if chance.random() < 0.1:
        gpus = chance.choice((None, {}, "GPU-1", [1], [[]], [None], [["GPU-1"]]))
    words = WORDS if chance.random() < 0.3 else ("",)
    uid, pod = f"fuzz-{number}{chance.choice(words)}", chance.choice(words)
    holder: object = {"uid": uid, "namespace": chance.choice(words), "pod": pod, "service": "s"}
    if chance.random() < 0.1:
        holder = chance.choice((None, [], "x", {"uid": 1}, {"uid": "x", "more": "y" * 5000}))
    text = json.dumps({"gpus": gpus, "holder": holder, "nonce": chance.choice(("", "", "ab", "ab", "Z"))})
    if chance.random() < 0.1:
        text = chance.choice(("[" * 5000, "{" * 5000, '{"gpus":' * 500, text[:-5], text + "x", "\ufeff" + text))
    return text.encode("utf-8", "replace")


def raw(chance: Chance) -> bytes:
    """A request that is hardly HTTP."""
    version = chance.choice(("1.1", "1.0", "2.0", "9"))
    head = f"{chance.choice(METHODS)} {chance.choice(PATHS)} HTTP/{version}\r\nHost: x\r\n"
    head += "".join(f"{row}\r\n" for row in chance.sample(HEADERS, chance.randrange(4)))
    return head.encode("latin-1", "replace") + b"Connection: close\r\n\r\n" + chance.randbytes(chance.randrange(200))


def one(held: Castle, chance: Chance, number: int) -> int:
    """Send one; the status, 0 for a closed connection."""
    source = f"127.0.2.{number % 250 + 1}"
    try:
        if chance.random() < 0.7:
            return ask(held.up, lease(chance, number), source, 15)[0]
        answer = send(held.up, raw(chance), source, 15)
    except (TimeoutError, ConnectionError, ValueError):
        return 0
    return int(answer[9:12]) if answer[9:12].isdigit() else 0


def judge(held: Castle, folder: Path, statuses: Counter[int]) -> list[str]:
    """What is wrong after all."""
    status, answer = ask(held.up, body([gpu(0)], "healthy"), "127.0.1.1")
    memory, events, wrong = held.up.memory_mib(), held.events(), list[str]()
    granted = [gpus for row in held.records("event=granted&limit=10000") if isinstance(gpus := row["gpus"], list)]
    per_gpu = Counter(name for gpus in granted for name in set(map(card, gpus)))
    invented = sum("invented" in "".join(gpus) for gpus in granted)
    log, out = (folder / "server.log").read_text(errors="replace"), (folder / "audit.out").read_bytes()
    held.stop()
    checks = (
        (any(code >= 500 and code != 503 for code in statuses), f"5xx: {dict(statuses)}"),
        ("Traceback" in log, f"a traceback in the log: {log[log.find('Traceback') :][:600]}"),
        (memory > MEMORY_MIB, f"memory {memory:.0f} MiB"),
        (any(byte != 10 and not 32 <= byte < 127 for byte in out), "bytes on standard output that are not ASCII"),
        (bool(invented), f"{invented} grants of invented slices"),
        (max(per_gpu.values(), default=0) > CAP, f"a GPU leased {max(per_gpu.values(), default=0)} times"),
        ("uploaded" not in events, "the upload is not in the audit log any more"),
        ((status, answer.get("state")) != (200, "renewed"), f"the healthy pod was answered {status} {answer}"),
    )
    wrong += [sentence for failed, sentence in checks if failed]
    return wrong


def card(name: str) -> str:
    """The GPU of a device."""
    return name.removeprefix("MIG-").partition("/")[0]


def main() -> int:
    """Send all, then judge; 1 when something is wrong."""
    seed = int(os.environ.get("WINDLASS_FUZZ_SEED", str(random.SystemRandom().randrange(10**6))))
    chance, statuses = Chance(seed), Counter[int]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with castle(folder, "--audit-mib", "4") as held:
            held.license()
            ask(held.up, body([gpu(0)], "healthy"), "127.0.1.1")
            for number in range(EXAMPLES):
                statuses[one(held, chance, number)] += 1
                if number % 50 == 0:
                    ask(held.up, body([gpu(0)], "healthy"), "127.0.1.1")
            wrong = judge(held, folder, statuses)
    print(f"seed {seed}, this checkout {current()}: {EXAMPLES} requests, {dict(sorted(statuses.items()))}")
    print("\n".join(f"wrong: {sentence}" for sentence in wrong) or "nothing wrong")
    seen = f"{len(wrong)} wrong, seed {seed}"
    return int(
        not record(__file__, f"{EXAMPLES:,} hostile requests at the license server", "none wrong", seen, not wrong)
    )


if __name__ == "__main__":
    sys.exit(main())
