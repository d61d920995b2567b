"""`make attack` ends with this: one table of all attacks, their bounds and what was seen.

    python tests/attack/table.py ROWS [--short]

Exits 1 when a bound was missed, or when an attack left no row. `--short` expects no row of the long files.
"""

import argparse
import sys
from pathlib import Path

from windlass_testbed.attacks import read, table, with_missing

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
    rows = with_missing(read(options.rows), expected(options.short))
    missed = sum(not row.held for row in rows)
    print(table(rows))
    print(f"{missed} of {len(rows)} bounds missed" if missed else f"all {len(rows)} bounds held")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
