"""What the pinned engine can run, as data: architectures, and what each of its quantization methods needs.

`engine.json` is written from the engine itself by `tools/engine_abilities.py`; nobody edits it by hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

RECORD = Path(__file__).with_name("engine.json")


@dataclass(frozen=True, slots=True)
class Needs:
    """What the engine's class of one quantization method asks for."""

    capability: tuple[int, int]  # the least compute capability
    dtypes: tuple[str, ...]  # of the activations


@dataclass(frozen=True, slots=True)
class Engine:
    """One release of the engine."""

    release: str
    methods: dict[str, Needs]
    deprecated: tuple[str, ...]  # methods that it refuses unless it is told to allow them
    online: tuple[str, ...]  # names that quantize plain weights
    no_float16: tuple[str, ...]  # model types whose activations overflow in float16
    architectures: frozenset[str]  # with a module of the engine's own
    transformers: frozenset[str]  # that it runs by transformers' module
    suffixes: tuple[str, ...]  # of classes for another task, which it makes of the ones that it has
    gone: dict[str, str]  # architectures that it gave up, and the last release with them

    def serves(self, architecture: str) -> bool:
        """Whether it finds a module for this class, by itself, by transformers, or made for another task."""
        if architecture in self.architectures or architecture in self.transformers:
            return True
        suffix = next((suffix for suffix in self.suffixes if architecture.endswith(suffix)), None)
        others = (architecture.replace(suffix, other) for other in self.suffixes) if suffix else ()
        return any(other in self.architectures for other in others)


def read(text: str) -> Engine:
    """The engine of a record's text."""
    found = json.loads(text)
    methods = {
        name: Needs(divmod(needs["capability"], 10), tuple(needs["dtypes"])) for name, needs in found["methods"].items()
    }
    return Engine(
        found["release"],
        methods,
        tuple(found["deprecated"]),
        tuple(found["online"]),
        tuple(found["no_float16"]),
        frozenset(found["architectures"]),
        frozenset(found["transformers"]),
        tuple(found["suffixes"]),
        found["gone"],
    )


ENGINE = read(RECORD.read_text(encoding="utf-8"))
"""The release that our images hold."""
