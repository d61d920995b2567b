"""The values that a launch is decided from and into: the model's files, the machine, and the plan. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.settings.setting import Setting
from windlass_sizing.settings.values import Value

from windlass.engine.adapters.model import Adapters, Merge
from windlass.engine.startup.first_chat import Question
from windlass.group.plan import GroupPlan
from windlass.launch.marks import Marks
from windlass.license.model import Gpu

ENGINE_PORT = 8000


@dataclass(frozen=True, slots=True)
class DraftFiles:
    """What the directory of a draft model or a head says, beside the served model's."""

    path: str
    served_path: str
    served: ModelFacts | None = None
    """None where the formula does not know the kind of model, as the next."""
    facts: ModelFacts | None = None
    has_same_vocabulary: bool | None = None
    """None where a tokenizer's file does not tell."""
    problem: str = ""
    """Why it can draft for no model, as a sentence."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What the model directory says; `None` where it says nothing."""

    path: str
    model_type: str = ""
    max_model_len: int | None = None
    quantization: str | None = None
    attention_heads: int | None = None
    model_id: str | None = None
    """From `ti_model_config.json`, as the next."""
    conv_template: str | None = None
    architecture: str = ""
    takes_any_length: bool = False
    """The engine knows no longest context of it."""
    has_chat_template: bool = False
    marks: Marks = field(default_factory=Marks)
    """Of the form that the model writes in, and the chat template that the engine renders by itself."""
    brings_code: bool | None = None
    """Its config.json names a class of its own; None: nobody looked."""
    is_embedder: bool = False
    """It brings a `modules.json`, as models of sentence-transformers do."""
    vocab_size: int | None = None
    has_experts: bool = False
    """It is a mixture of experts."""
    is_multimodal: bool = False
    """It takes images or other media."""
    unsplit: str = ""
    """Why its prompts cannot be split over GPUs; empty where they can."""
    has_smoothquant_file: bool = False
    has_plain_weights: bool = True  # False: smoothquant's file is the only weight file
    weights_problem: str = ""
    """Why its weight files are not whole, as a sentence."""
    generation: Mapping[str, object] = field(default_factory=dict)
    """What the engine takes for the model's generation_config.json."""
    base: str = ""
    """Where the weights lie, when the model directory holds adapters only."""
    adapters: Adapters = field(default_factory=Adapters)
    draft: DraftFiles | None = None
    """None: nothing drafts, or nobody looked."""

    @property
    def weights_path(self) -> str:
        """The directory of the weights."""
        return self.base or self.path


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the engine will run. On `cpu` the GPUs, when there are any, are licensed but not computed on."""

    engine: str  # cuda | cpu
    gpus: tuple[Gpu, ...] = ()
    has_compiler: bool = True
    cores: tuple[int, ...] = ()
    """CPUs that this container may compute on, one of each physical core."""
    group: GroupPlan | None = None
    """The group that this machine is a member of."""
    memory_bytes: int = 0
    """Host memory of this container; 0 when nobody looked, as the next."""
    shared_bytes: int = 0
    """Free in /dev/shm."""
    processors: int = 0
    """Physical cores of this container, by its affinity and its quota; 0 when nobody counted."""

    @property
    def cards(self) -> int:
        """What this machine can compute on: its GPUs; the CPU engine's one process is one card."""
        return max(1, len(self.gpus)) if self.engine == "cuda" else 1


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that must be there when the engine starts."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How the engine is started, and everything worth telling about it."""

    settings: tuple[Setting, ...]
    engine_args: tuple[str, ...]
    """No secret is among them: keys go through `variables`."""
    warnings: tuple[str, ...]
    files: tuple[PlannedFile, ...] = ()
    merge: Merge | None = None
    """Weights that are made before the engine starts."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the engine's process gets beside our own environment; it may hold keys."""

    notes: tuple[str, ...] = ()
    """What the start takes of the machine: no reason to change anything."""
    questions: tuple[Question, ...] = ()
    """What the server is asked before it is ready."""

    @property
    def shown_args(self) -> tuple[str, ...]:
        """The command line for logs, facts and people."""
        return self.engine_args

    def value(self, name: str) -> Value | None:
        """The value of a row, None when it has none."""
        return next((setting.value for setting in self.settings if setting.name == name), None)

    @property
    def port(self) -> int:
        """The API's port; the engine's own commands leave it to the engine."""
        return int(str(self.value("port") or ENGINE_PORT))

    @property
    def model_path(self) -> str:
        """The model directory."""
        return str(self.value("model"))
