"""Measures how long the command line takes to answer: the median of several starts, and which miss the aim.

    python server/bench/cli.py [--rounds 5]

It only tells; a machine that does other work at the same time misses the aim by that.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

AIM_S = 0.5
COMMANDS = ("--help", "plan --help", "plan models/demo --gpu L20", "doctor --help", "chat --help", "version")


def seconds(words: str) -> float:
    """One start, from the process's birth to its end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "windlass.cli.main", *words.split()], check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    """Print one line a command."""
    asked = argparse.ArgumentParser(description="wall time of windlass commands")
    asked.add_argument("--rounds", type=int, default=5)
    rounds = asked.parse_args().rounds
    for words in COMMANDS:
        median = statistics.median(seconds(words) for _ in range(rounds))
        verdict = "ok" if median < AIM_S else f"misses the aim of {AIM_S} s"
        print(f"windlass {words:26} {median:5.2f} s  {verdict}")


if __name__ == "__main__":
    main()
