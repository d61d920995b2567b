"""`make attack-license`: kill -9 in the middle of grants and releases, again and again, while pods ask for a minute.

Sixty pods ask, renew and release as fast as answers come; the aim is 2,000 answers a second. After each kill the
history of `make crash-license` holds the server to its promises: no lease is lost or another's, the limit is kept, and
every acknowledged grant and release is in the audit log. Prints the figures; exits 1 when a bound is missed.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from siege import ROOT
from windlass_testbed.attacks import record

sys.path.insert(0, str(ROOT / "license_server" / "crash"))
from pods import all_pods
from run import History

ANSWERS_PER_S = 2_000
LONGEST_LIFE_S = 10.0


def judged(history: History, kills: int) -> bool:
    """Whether all bounds held; each leaves its row."""
    made = history.acknowledged
    rate = made.requests / history.lived_s
    name = f"{history.lived_s:.0f} s of leases, {kills} × kill -9"
    print(
        f"{name}: {made.requests} answers, {len(made.granted)} grants, {len(made.released)} releases, "
        f"{rate:.0f} answers/s",
        *history.wrong[:20],
        sep="\n",
    )
    return all(
        [
            record(
                __file__, f"{name}: lost or without a record", "none", f"{len(history.wrong)}", held=not history.wrong
            ),
            record(
                __file__, f"{name}: answers", f"≥ {ANSWERS_PER_S:,}/s", f"{rate:,.0f}/s", held=rate >= ANSWERS_PER_S
            ),
        ]
    )


def main() -> int:
    """Kill and judge."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--seconds", type=float, default=60, help="in which pods ask, starts not counted")
    words.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = words.parse_args()
    kills = 0
    with tempfile.TemporaryDirectory() as folder:
        chance = random.Random(options.seed)
        history = History(Path(folder), chance, Ed25519PrivateKey.generate(), all_pods(options.seed))
        history.longest_life_s = LONGEST_LIFE_S
        while history.lived_s < options.seconds and not history.wrong:
            history.life()
            kills += 1
    print(f"seed {options.seed}")
    return int(not judged(history, kills))


if __name__ == "__main__":
    sys.exit(main())
