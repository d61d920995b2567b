"""What a decision on a quantization method is asked about, and how it answers a problem. Values alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from windlass_sizing.quantization.engine import ENGINE
from windlass_sizing.quantization.methods import METHODS, Capability, Method


@dataclass(frozen=True, slots=True)
class Words:
    """How a person sets what the sentences speak of."""

    quantization: str
    dtype: str


FLAGS = Words("--quantization", "--dtype")
FIELDS = Words("spec.engine.quantization", "spec.engine.dtype")


@dataclass(frozen=True, slots=True)
class Card:
    """What computes: a GPU and its compute capability, None where that is not known; or a CPU."""

    name: str = ""
    capability: Capability | None = None
    is_cpu: bool = False

    def reaches(self, capability: Capability) -> bool:
        """Whether it has at least this compute capability; an unknown card and a CPU are given the benefit."""
        return self.capability is None or self.capability >= capability

    def formats(self, row: Method) -> tuple[str, ...]:
        """The number formats that the method computes in here."""
        return row.cpu_dtypes if self.is_cpu else row.dtypes


CPU = Card("CPU", is_cpu=True)


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a method asks of the model's architecture."""

    model_type: str = ""
    has_experts: bool = False
    name: str = ""  # the class that config.json names; empty: it names none
    brings_code: bool | None = False  # the checkpoint has a class of its own; None: nobody looked

    @property
    def overflows(self) -> bool:
        """Whether its activations leave the range of float16, so that the engine refuses it."""
        return self.model_type in ENGINE.no_float16


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a method asks of the model's files."""

    quantized_by: str = ""  # the checkpoint's own `quant_method`; empty: plain weights
    has_smoothquant_file: bool | None = False  # None: nobody looked
    has_plain_weights: bool = True  # False: smoothquant's file is all that is there


class About(StrEnum):
    """What a problem speaks of."""

    METHOD = "method"
    DTYPE = "dtype"
    CHECKPOINT = "checkpoint"
    ARCHITECTURE = "architecture"
    CARD = "card"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why it cannot be, and what to do."""

    message: str
    remedy: str
    about: About = About.METHOD

    def sentence(self) -> str:
        """Both as one sentence."""
        return f"{self.message}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that a rule may look at."""

    asked: str
    dtype: str
    card: Card
    architecture: Architecture
    checkpoint: Checkpoint
    words: Words

    @property
    def row(self) -> Method:
        """The asked method; only for a name that has a row."""
        return METHODS[self.asked]

    @property
    def leave_out(self) -> str:
        """The remedy that always helps."""
        return f"leave {self.words.quantization} out"

    def says(self, message: str, remedy: str) -> Problem:
        """A problem of the asked method."""
        return Problem(f"{self.words.quantization} {self.asked} {message}", remedy)


def owned(card: Card) -> str:
    """The card and its compute capability, as the second half of a sentence."""
    return f"{card.name} has {dotted(card.capability or ())}"


def dotted(capability: tuple[int, ...]) -> str:
    """A compute capability as people write it."""
    return ".".join(map(str, capability))
