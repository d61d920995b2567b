"""`make attack` ends with this: one table of all attacks, their bounds and what was seen.

    python tests/attack/table.py ROWS [--short]

Exits 1 when a bound was missed, or when an attack left no row. `--short` expects no row of the long files, and bounds
the time of all attacks together, which began when the file ROWS.begun was made.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from windlass_testbed.attacks import Row, read, table, with_missing

HERE = Path(__file__).parent
PROGRAMS = (
    "chat_page/run.py",
    "license/floods.py",
    "license/fuzz_http.py",
    "license/kills.py",
    "license/open_floods.py",
    "operator/neighbours.py",
)
"""Attacks that are no files of tests."""
TESTS = ("test_*.py", "run_*.py")
LONG = "long_*.py"
SHORT_S = 600.0
"""All short versions together, on two cores that do nothing else."""


def expected(short: bool) -> list[str]:
    """The programs of which each leaves a row."""
    patterns = TESTS if short else (*TESTS, LONG)
    return sorted([*PROGRAMS, *(str(file.relative_to(HERE)) for one in patterns for file in HERE.glob(f"*/{one}"))])


def main() -> int:
    """Print and judge."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("rows", type=Path)
    words.add_argument("--short", action="store_true")
    options = words.parse_args()
    taken_s = time.time() - options.rows.with_name(f"{options.rows.name}.begun").stat().st_mtime
    whole = Row("table.py", "all attacks together", "none", f"{taken_s:.0f} s", held=True)
    if options.short:
        whole = replace(whole, bound=f"≤ {SHORT_S:.0f} s", held=taken_s <= SHORT_S)
    rows = [*with_missing(read(options.rows), expected(options.short)), whole]
    missed = sum(not row.held for row in rows)
    print(table(rows))
    print(f"{missed} of {len(rows)} bounds missed" if missed else f"all {len(rows)} bounds held")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
