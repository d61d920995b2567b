"""What the pinned engine can run, as data: architectures, what each quantization method needs, and on which cards.

`engine.json` is written from the engine itself by `tools/engine_abilities.py`, and its `cards` from the engine's wheels
by `tools/engine_cards.py`; nobody edits it by hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

RECORD = Path(__file__).with_name("engine.json")
VLLM, DEEPSPEED = "vllm", "deepspeed"
NEEDED = ("torch/lib/libtorch_cuda.so", "vllm/_C_stable_libtorch.abi3.so")
"""The libraries whose kernels every model needs; the others hold what only some cards or models have."""
Capability = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Needs:
    """What the engine's class of one quantization method asks for."""

    capability: Capability  # the least compute capability
    dtypes: tuple[str, ...]  # of the activations


@dataclass(frozen=True, slots=True)
class Code:
    """The compute capabilities that a library holds code for."""

    machine: tuple[Capability, ...]  # runs on these and on later ones of the same generation
    ptx: tuple[Capability, ...]  # compiled by the driver for these and for every later one

    def runs_on(self, capability: Capability) -> bool:
        """Whether a card of this compute capability has code here."""
        same = any(held[0] == capability[0] and held <= capability for held in self.machine)
        return same or any(held <= capability for held in self.ptx)


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
    adapter_embeddings: dict[
        str, tuple[str, ...]
    ]  # embedding and head that a class, or its language model's, offers to adapters
    adapter_ignored: dict[str, tuple[str, ...]]  # beginnings of names of modules whose adapters a class ignores
    cards: dict[str, tuple[Code, ...]]  # of each image's family: the needed libraries

    def serves(self, architecture: str) -> bool:
        """Whether it finds a module for this class, by itself, by transformers, or made for another task."""
        if architecture in self.architectures or architecture in self.transformers:
            return True
        suffix = next((suffix for suffix in self.suffixes if architecture.endswith(suffix)), None)
        others = (architecture.replace(suffix, other) for other in self.suffixes) if suffix else ()
        return any(other in self.architectures for other in others)

    def has_code(self, capability: Capability, family: str = VLLM) -> bool:
        """Whether the wheels of this family's image run on a card of this compute capability."""
        return all(code.runs_on(capability) for code in self.cards[family])

    def least(self, family: str = VLLM) -> Capability:
        """The oldest compute capability that every needed library has machine code for."""
        return max(min(code.machine) for code in self.cards[family])


def _cards(wheels: dict[str, dict[str, dict[str, list[int]]]]) -> tuple[Code, ...]:
    """The needed libraries of one image's wheels."""
    held = {name: kinds for libraries in wheels.values() for name, kinds in libraries.items()}
    return tuple(
        Code(tuple(divmod(one, 10) for one in held[name]["sm"]), tuple(divmod(one, 10) for one in held[name]["ptx"]))
        for name in NEEDED
        if name in held
    )


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
        {name: tuple(modules) for name, modules in found["adapter_embeddings"].items()},
        {name: tuple(modules) for name, modules in found["adapter_ignored"].items()},
        {family: _cards(wheels) for family, wheels in found["cards"].items()},
    )


ENGINE = read(RECORD.read_text(encoding="utf-8"))
"""The release that our images hold."""
