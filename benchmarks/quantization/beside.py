"""An entry point beside the sources, where the distribution is not installed: vLLM looks for its plug-ins there.

    PYTHONPATH=$(python beside.py FOLDER):$PYTHONPATH …

Every process of an engine finds our methods then, those of other ranks too.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def plugin(folder: Path, root: Path = ROOT) -> Path:
    """The folder for PYTHONPATH, made in this one, with the entry points of the tree at `root`."""
    about = tomllib.loads((root / "server/pyproject.toml").read_text())["project"]["entry-points"]
    place = folder / "site/windlass_bench-0.dist-info"
    place.mkdir(parents=True, exist_ok=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: windlass-bench\nVersion: 0\n")
    lines = [
        line for group, names in about.items() for line in (f"[{group}]", *(f"{n} = {to}" for n, to in names.items()))
    ]
    (place / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return place.parent


if __name__ == "__main__":
    print(plugin(Path(sys.argv[1])))
