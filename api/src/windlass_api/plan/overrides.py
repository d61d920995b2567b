"""The engine settings in force: `spec.args` wins over `spec.command`, that over `spec.env`, that over `spec.engine`.

A plan that read `spec.engine` alone would size another server than the one that starts. Only the settings that
change memory are read; the server itself judges all the others. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from windlass_sizing import engine_flags
from windlass_sizing.model import context_length

from windlass_api.crd.v1alpha1 import EngineSpec, LLMServiceSpec

RUN, VLLM = "run", "vllm"


@dataclass(frozen=True, slots=True)
class Setting:
    """One engine setting: its field, its flags, its variable, and how its text is read."""

    field: str
    flags: tuple[str, ...]
    variable: str  # empty: it has none
    read: Callable[[str], object]


def _percent(text: str) -> int:
    share = float(text)
    if not 0 < share <= 1 or not round(share * 100):
        raise ValueError(text)
    return round(share * 100)


def _length(text: str) -> int:
    """Not `auto` and `-1`: there the engine takes what fits, and the plan stays with its own length."""
    tokens = context_length.tokens_of(text)
    if tokens is None:
        raise ValueError(text)
    return tokens


YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def is_true(text: str) -> bool:
    """Whether the text of a switch switches it on."""
    return text.strip().casefold() in YES


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


SETTINGS = (
    Setting("quantization", ("--quantization", "--q", "-q"), "QUANTIZATION", str),
    Setting("max_model_len", ("--max-model-len",), "MAX_MODEL_LEN", _length),
    Setting("dtype", ("--dtype",), "DTYPE", str),
    Setting("gpu_memory_utilization_percent", ("--gpu-memory-utilization",), "GPU_MEMORY_UTILIZATION", _percent),
    Setting("ignore_engine_limits", ("--ignore-engine-limits",), "IGNORE_ENGINE_LIMITS", is_true),
    Setting("enforce_eager", ("--enforce-eager",), "ENFORCE_EAGER", is_true),
    Setting("tensor_parallel_size", ("--tensor-parallel-size", "--tp", "-tp", "--num-gpus"), "TP", _count),
    Setting("pipeline_parallel_size", ("--pipeline-parallel-size", "--pp", "-pp"), "", _count),
    Setting("sequence_parallel_size", ("--sequence-parallel-size",), "SEQUENCE_PARALLEL_SIZE", _count),
    Setting("workers", ("--worker-num",), "WORKER_NUM", _count),
    Setting("kv_cache_dtype", ("--kv-cache-dtype",), "", str),
    Setting("max_num_batched_tokens", ("--max-num-batched-tokens",), "", _count),
    Setting("max_num_seqs", ("--max-num-seqs",), "", _count),
)
BY_FLAG = {flag: setting for setting in SETTINGS for flag in setting.flags}
BY_VARIABLE = {setting.variable: setting for setting in SETTINGS if setting.variable}


def runs_windlass(spec: LLMServiceSpec) -> bool:
    """Whether the container runs `windlass run`; any other command is the user's own and gets no planned flags."""
    return not spec.command or spec.command[0] == RUN


def words(spec: LLMServiceSpec) -> tuple[str, ...]:
    """The user's words for the server, flags of vLLM in full: it takes a unique beginning for the whole."""
    given = (*spec.command[1:], *spec.args)
    return tuple(map(engine_flags.record().in_full, given)) if spec.image.family == VLLM else given


def names(spec: LLMServiceSpec, flag: str) -> bool:
    """Whether the user's words name one of the engine's flags, in any spelling, with a value or a key or without."""
    return any(word.startswith("-") and engine_flags.record().flag_of(word) == flag for word in words(spec))


def engine_in_force(spec: LLMServiceSpec) -> EngineSpec:
    """`spec.engine` with what the variables and flags say laid over it; text that cannot be read is left out."""
    found: dict[str, object] = {}
    for name, text in _variables(spec):
        _lay(found, BY_VARIABLE[name], text)
    for flag, text in _flags(words(spec)):
        _lay(found, BY_FLAG[flag], text)
    return spec.engine.model_copy(update=found)


def last_given(spec: LLMServiceSpec, flag: str, variable: str = "") -> str | None:
    """The text that the user gives to one of the engine's flags, or else to its variable; empty for a flag alone."""
    found = next((entry.value for entry in spec.env if entry.name == variable and entry.value), None)
    for word, after in pairwise((*words(spec), "")):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == flag:
            found = value if equals else "" if after.startswith("--") else after
    return found


def switched(spec: LLMServiceSpec, flag: str, variable: str = "") -> bool | None:
    """What a switch says, as the server reads it: the last of `--flag`, `--flag WORD` and `--no-flag`, or its variable.

    None where neither is given. A word that follows the flag counts where it says yes or no.
    """
    found = None
    for word, after in pairwise((*words(spec), "")):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == flag:
            found = is_true(value if equals else _switch_word(after))
        elif name.replace("_", "-") == f"--no-{flag.removeprefix('--')}":
            found = False
    if found is not None or not variable:
        return found
    text = next((entry.value for entry in spec.env if entry.name == variable and entry.value), None)
    return None if text is None else is_true(text)


def _switch_word(after: str) -> str:
    """The value of a switch that this word follows."""
    return after if after.casefold() in (*YES, *NO) else "true"


def whole_prompts(spec: LLMServiceSpec) -> bool:
    """Whether the user's flags forbid that a long prompt is read in several steps."""
    return switched(spec, "--enable-chunked-prefill") is False


def _lay(found: dict[str, object], setting: Setting, text: str) -> None:
    try:
        found[setting.field] = setting.read(text)
    except ValueError:
        return  # the server refuses it with a sentence of its own (BadFlag)


def _variables(spec: LLMServiceSpec) -> Iterator[tuple[str, str]]:
    return ((entry.name, entry.value) for entry in spec.env if entry.name in BY_VARIABLE and entry.value)


def _flags(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for index, word in enumerate(given):
        flag, equals, value = word.partition("=")
        flag = flag if flag.startswith("-tp") else flag.replace("_", "-")
        following = given[index + 1] if index + 1 < len(given) else ""
        plain = f"--{flag.removeprefix('--no-')}"
        if flag.startswith("--no-") and plain in BY_FLAG and BY_FLAG[plain].read is is_true:
            yield plain, "false"
        if flag not in BY_FLAG:
            continue
        if BY_FLAG[flag].read is is_true and not equals:
            yield flag, _switch_word(following)
        else:
            yield flag, value if equals else following
