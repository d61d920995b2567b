"""Prints every offence against the rules of the house as `file:line: sentence`, and exits with 1 where there is one.

python -m tools.house           all rules
python -m tools.house links     some of them
python -m tools.house --write   write docs/reference/features.md first
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable

from . import (
    bounds,
    console_pages,
    cycles,
    decisions,
    features,
    files,
    how_to,
    pages,
    plain_words,
    tutorials,
    wall_clock,
)
from .tree import Offence, Tree

RULES: dict[str, Callable[[Tree], Iterable[Offence]]] = {
    "length": files.length,
    "file-names": files.names,
    "rooms": files.rooms,
    "locks": files.locks,
    "targets": files.targets,
    "dropped-files": files.dropped_files,
    "merges": files.merges,
    "size": files.size,
    "links": pages.links,
    "sections": pages.sections,
    "prompts": pages.prompts,
    "how-to-kinds": how_to.kinds,
    "how-to-marks": how_to.marks,
    "how-to-runs": how_to.runs,
    "tutorials": tutorials.places,
    "tutorial-places": tutorials.table_places,
    "tutorial-services": tutorials.services,
    "quickstart": tutorials.quickstart,
    "demo-plan": tutorials.plan,
    "features-page": features.current,
    "features": features.table,
    "decision-index": decisions.index,
    "sentences": plain_words.pages,
    "names": plain_words.names,
    "console-exports": console_pages.exports,
    "console-texts": console_pages.texts,
    "listeners": bounds.listeners,
    "loops": bounds.loops,
    "cycles": cycles.modules,
    "wall-clock": wall_clock.places,
}


def main(argv: list[str] | None = None) -> int:
    """Return how the program ends: 0 without an offence, 1 with one."""
    docs = "\n".join(f"  {name:18} {(rule.__doc__ or name).splitlines()[0]}" for name, rule in RULES.items())
    parser = argparse.ArgumentParser(
        "python -m tools.house",
        description="List every offence against the rules of the house.",
        epilog=f"rules:\n{docs}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rule", nargs="*", help="a rule by name; all where none is named")
    parser.add_argument("--write", action="store_true", help=f"write {features.PAGE} first")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.rule if name not in RULES]:
        parser.error(f"no rule {unknown[0]}; `--help` lists them")
    tree = Tree.of()
    if options.write:
        features.write(tree)
    found = [one for name in options.rule or RULES for one in RULES[name](tree)]
    for offence in sorted(found):
        print(offence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
