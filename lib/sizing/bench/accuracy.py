"""How near the counts come to real models: a table over a directory of configurations with known figures.

Run as `python lib/sizing/bench/accuracy.py DIR`. Each folder of DIR holds a `config.json`, the quantization settings
that lie beside it if there are any, and a `facts.json` with `params`, `checkpoint_bytes` (or null), and `resolved`:
layers, heads, KV heads and head size as a loader sees them. A folder without `facts.json` is shown with our figures
alone, held to the bytes of its weights' index where it has one. Ends with 1 when a figure is off by more than 3 %, or a
configuration that is near is warned of.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from windlass_sizing.errors import SizingError
from windlass_sizing.files.source import read_facts
from windlass_sizing.model.dtypes import dtype_bytes
from windlass_sizing.model.facts import ModelFacts

CLOSE = 0.03
SIZES = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim")
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Row:
    """One model: its figures beside ours, errors as fractions."""

    name: str
    params: int = 0
    real: int | None = None
    params_error: float = 0
    bytes_error: float | None = None
    differs: tuple[str, ...] = ()
    refused: str = ""
    unread: str = ""  # keys that the plan warns of

    @property
    def close(self) -> bool:
        """Whether everything is near enough."""
        near = abs(self.params_error) <= CLOSE and abs(self.bytes_error or 0) <= CLOSE
        return near and not self.differs and not self.refused and not self.unread


def measure(folder: Path) -> Row:
    """Compare one folder."""
    file = folder / "facts.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    real = known.get("params")
    try:
        facts = read_facts(folder)
    except SizingError as error:
        return Row(folder.name, real=real, refused=str(error))
    known.setdefault("checkpoint_bytes", facts.weights_bytes)
    return Row(
        folder.name,
        facts.params,
        real,
        facts.params / real - 1 if real else 0.0,
        _bytes_error(facts, known),
        _differences(facts, known.get("resolved") or {}),
        unread=facts.unread or "",
    )


def _bytes_error(facts: ModelFacts, known: dict[str, float]) -> float | None:
    real = known.get("checkpoint_bytes") or (known.get("checkpoint_gib_catalog") or 0) * GIB
    counted = facts.counted_bytes or facts.params * dtype_bytes(facts.stored_dtype or "float16")
    return counted / real - 1 if real else None


def _differences(facts: ModelFacts, resolved: dict[str, object]) -> tuple[str, ...]:
    return tuple(
        f"{size} {getattr(facts, size)}, not {resolved[size]}"
        for size in SIZES
        if isinstance(resolved.get(size), int) and resolved[size] != getattr(facts, size)
    )


def show(rows: list[Row]) -> None:
    """Print the table, the worst first, and a line that sums it up."""
    print(f"{'MODEL':46} {'FORMULA':>16} {'REAL':>16} {'OFF BY':>8} {'BYTES OFF BY':>13}")
    for row in sorted(rows, key=lambda row: (row.close, -max(abs(row.params_error), abs(row.bytes_error or 0)))):
        size = "" if row.bytes_error is None else f"{row.bytes_error:+.2%}"
        warning = f"nothing reads {row.unread}" if row.unread else ""
        notes = row.refused or "; ".join(filter(None, (*row.differs, warning)))
        real, off = (f"{row.real:,d}", f"{row.params_error:+.2%}") if row.real else ("-", "-")
        print(f"{row.name:46} {row.params:16,d} {real:>16} {off:>8} {size:>13} {notes}".rstrip())
    sized = [abs(row.bytes_error) for row in rows if row.bytes_error is not None]
    worst = max((abs(row.params_error) for row in rows), default=0)
    print(
        f"{len(rows)} models, {sum(row.close for row in rows)} within {CLOSE:.0%}; "
        f"parameters off by at most {worst:.2%}, "
        f"bytes of {len(sized)} checkpoints by at most {max(sized, default=0):.2%}"
    )


def main() -> int:
    """Read the directory, print, and say whether all are close."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path, metavar="DIR")
    directory: Path = parser.parse_args().directory
    rows = [measure(config.parent) for config in sorted(directory.glob("*/config.json"))]
    show(rows)
    return 0 if rows and all(row.close for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
