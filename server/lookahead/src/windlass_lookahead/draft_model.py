"""A small draft model on the host's cores: which models the native decoder knows, and how it reads their directory.

`load` maps each safetensors file and hands over tensor by tensor, so that no second copy of the weights is in memory.
The decoder keeps 8 or 4 bits of a weight. Whatever it does not know is refused with a sentence before it reads weights.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from windlass_lookahead._core import DraftModel, DraftWeights, HostDrafter, model_drafter
from windlass_lookahead.errors import OptionError

PATHS = {"best": 0, "portable": 1, "avx2": 2, "vnni": 3, "amx": 4}
"""Kernels by name; one that the processor has not is replaced by the next lesser one."""
CGROUPS = Path("/sys/fs/cgroup")
QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
"""Files with microseconds of processor time and the period that they are for; "max" and -1 stand for no quota."""
KIND_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True, slots=True)
class Architecture:
    """What tells one family of decoders from another."""

    qkv_bias: bool | None
    """None: the config's `attention_bias` says it, for the output projection too."""
    qk_norm: bool = False


ARCHITECTURES = {
    "LlamaForCausalLM": Architecture(None),
    "MistralForCausalLM": Architecture(False),
    "Qwen2ForCausalLM": Architecture(True),
    "Qwen3ForCausalLM": Architecture(None, qk_norm=True),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder's sizes, as its config.json has them."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    norm_epsilon: float
    rope_frequencies: tuple[float, ...]
    has_qkv_bias: bool
    has_output_bias: bool
    has_qk_norm: bool
    is_tied: bool
    most_positions: int


@dataclass(frozen=True, slots=True)
class Settings:
    """How a decoder runs. `rows` have a key-value cache of `window` tokens; `threads` 0: all cores but a few."""

    rows: int = 64
    window: int = 1024
    body_bits: int = 8
    head_bits: int = 8
    threads: int = 0
    path: str = "best"


def free_cores(cgroups: Path = CGROUPS) -> int:
    """Cores of this process less those that the engine and the drafting thread need.

    A container with a quota has no more than that: beyond it the system stops all its threads, the engine's too.
    """
    cores = min([len(os.sched_getaffinity(0)), *quota_cores(cgroups)])
    return max(1, cores - (2 if cores > 4 else 1))


def quota_cores(cgroups: Path) -> tuple[int, ...]:
    """Whole cores that a quota of processor time is worth, by version of control groups that has one."""
    found = (numbers_of(cgroups, files) for files in QUOTAS)
    return tuple(max(1, int(one[0]) // int(one[1])) for one in found if len(one) == 2 and all(map(str.isdigit, one)))


def numbers_of(folder: Path, files: tuple[str, ...]) -> list[str]:
    """The words of some files one after the other; none where one cannot be read."""
    try:
        return [word for name in files for word in (folder / name).read_text(encoding="utf-8").split()]
    except OSError:
        return []


def shape_of(config: Mapping[str, Any], where: str = "config.json") -> Shape:
    """The shape of a draft model.

    Raises:
        OptionError: the decoder cannot run such a model, or a size is missing.
    """
    family = architecture_of(config, where)
    sizes = {name: size_of(config, name, where) for name in ("num_hidden_layers", "hidden_size", "num_attention_heads")}
    heads = sizes["num_attention_heads"]
    head_dim = int(config.get("head_dim") or sizes["hidden_size"] // heads)
    has_bias = bool(config.get("attention_bias", False))
    return Shape(
        layers=sizes["num_hidden_layers"],
        hidden=sizes["hidden_size"],
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=head_dim,
        intermediate=size_of(config, "intermediate_size", where),
        vocabulary=size_of(config, "vocab_size", where),
        norm_epsilon=float(config.get("rms_norm_eps", 1e-6)),
        rope_frequencies=rope_frequencies(config, head_dim, where),
        has_qkv_bias=has_bias if family.qkv_bias is None else family.qkv_bias,
        has_output_bias=has_bias and family.qkv_bias is None,
        has_qk_norm=family.qk_norm,
        is_tied=bool(config.get("tie_word_embeddings", False)),
        most_positions=positions_of(config),
    )


def architecture_of(config: Mapping[str, Any], where: str) -> Architecture:
    """The family, where everything about the model is known."""
    names = config.get("architectures") or ["none"]
    if names[0] not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise OptionError(f"{where}: the draft decoder does not know {names[0]}; take a draft model of {known}.")
    unknown = {
        "hidden_act": config.get("hidden_act", "silu") != "silu",
        "mlp_bias": bool(config.get("mlp_bias", False)),
        "quantization_config": bool(config.get("quantization_config")),
        "partial_rotary_factor": float(config.get("partial_rotary_factor", 1.0)) != 1.0,
    }
    for name, is_unknown in unknown.items():
        if is_unknown:
            raise OptionError(
                f"{where}: the draft decoder does not know {name} {config[name]!r}; take an unquantized model "
                "with silu and without it."
            )
    return ARCHITECTURES[names[0]]


def size_of(config: Mapping[str, Any], name: str, where: str) -> int:
    """A size that must be there."""
    value = config.get(name)
    if not isinstance(value, int) or value < 1:
        raise OptionError(f"{where}: {name} must be a whole number above 0, and is {value!r}.")
    return value


def positions_of(config: Mapping[str, Any]) -> int:
    """Positions that the model knows: of its training, and of its sliding window where it has one."""
    most = int(config.get("max_position_embeddings") or 2048)
    sliding = config.get("sliding_window")
    return min(most, int(sliding)) if sliding and config.get("use_sliding_window", True) else most


def rope_frequencies(config: Mapping[str, Any], head_dim: int, where: str) -> tuple[float, ...]:
    """Radians a token of each pair of a head's numbers, with the config's scaling in them.

    Raises:
        OptionError: a scaling that depends on the text's length, or an unknown one.
    """
    scaling = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    theta = float(scaling.get("rope_theta") or config.get("rope_theta") or 10000.0)
    plain = [theta ** (-2 * i / head_dim) for i in range(head_dim // 2)]
    match scaling.get("rope_type") or scaling.get("type") or "default":
        case "default":
            return tuple(plain)
        case "linear":
            return tuple(frequency / float(scaling["factor"]) for frequency in plain)
        case "llama3":
            return tuple(llama3_frequency(frequency, scaling) for frequency in plain)
        case kind:
            raise OptionError(
                f"{where}: the draft decoder does not know rope type {kind!r}; it knows default, linear and llama3."
            )


def llama3_frequency(frequency: float, scaling: Mapping[str, Any]) -> float:
    """Long waves are stretched by the factor, short ones kept, those between mixed."""
    length = float(scaling["original_max_position_embeddings"])
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    waves_in_training = length * frequency / (2 * math.pi)
    share_kept = min(1.0, max(0.0, (waves_in_training - low) / (high - low)))
    return frequency * (share_kept + (1 - share_kept) / float(scaling["factor"]))


def host_bytes(shape: Shape, settings: Settings) -> int:
    """Host memory of the weights and of all rows' key-value caches, for a plan."""
    width = shape.heads * shape.head_dim
    keys = 2 * shape.kv_heads * shape.head_dim
    body = shape.layers * shape.hidden * (2 * width + keys + 3 * shape.intermediate)
    head = shape.vocabulary * shape.hidden
    kv = 2 * shape.layers * keys * window_of(shape, settings) * settings.rows
    return round(body * bytes_of_weight(settings.body_bits) + head * (2 + bytes_of_weight(settings.head_bits)) + kv)


def bytes_of_weight(bits: int) -> float:
    """Bytes of a weight with its part of the scales: a group of 32 has one of 16 bits."""
    return 1.0 if bits == 8 else 0.5 + 2 / 32


def window_of(shape: Shape, settings: Settings) -> int:
    """Tokens of a row that the decoder sees."""
    return min(settings.window, shape.most_positions)


def native_config(shape: Shape, settings: Settings) -> dict[str, Any]:
    """The numbers that the native decoder takes."""
    values = asdict(shape) | asdict(settings)
    values["rope_frequencies"] = list(shape.rope_frequencies)
    values["window"] = window_of(shape, settings)
    values["threads"] = settings.threads or free_cores()
    values["path"] = PATHS[settings.path]
    return values


def load(directory: Path, settings: Settings | None = None) -> DraftModel:
    """The draft model of a directory with config.json and safetensors files.

    Raises:
        OptionError: a file is missing, damaged or of a model that the decoder does not know.
    """
    chosen = settings or Settings()
    weights = read_weights(directory, chosen)
    with refusals(directory):
        return DraftModel(weights, chosen.rows)


def host_drafter(directory: Path, settings: Settings | None = None) -> HostDrafter:
    """The same as what a round trip drafts with beside the cache.

    Raises:
        OptionError: as `load`.
    """
    chosen = settings or Settings()
    weights = read_weights(directory, chosen)
    with refusals(directory):
        return model_drafter(weights, chosen.rows)


def check(directory: Path, settings: Settings | None = None) -> int:
    """Bytes of host memory that the draft model needs; reads no weights.

    Raises:
        OptionError: the decoder does not know such a model, or a file is missing.
    """
    shape = shape_of(read_json(directory / "config.json"), str(directory / "config.json"))
    for name, size, part in (
        ("hidden_size", shape.hidden, 32),
        ("intermediate_size", shape.intermediate, 32),
        ("head_dim", shape.head_dim, 16),
        ("num_attention_heads", shape.heads, shape.kv_heads),
    ):
        if size % part:
            raise OptionError(
                f"{directory / 'config.json'}: {name} {size} is no multiple of {part}, as the draft decoder needs it; "
                "take another draft model."
            )
    weight_files(directory)
    return host_bytes(shape, settings or Settings())


def read_weights(directory: Path, chosen: Settings) -> DraftWeights:
    """The weights, as few bits as the settings say."""
    with refusals(directory):
        shape = shape_of(read_json(directory / "config.json"), str(directory / "config.json"))
        weights = DraftWeights(native_config(shape, chosen))
        for path in weight_files(directory):
            for name, kind, sizes, data in tensors(path):
                if is_wanted(name, shape):
                    weights.add(name, data, kind, sizes)
        return weights


@contextmanager
def refusals(directory: Path) -> Iterator[None]:
    """Turn the native decoder's exceptions into ours, with the place."""
    try:
        yield
    except ValueError as error:
        raise OptionError(f"draft model {directory}: {error}") from None
    except MemoryError:
        raise OptionError(f"draft model {directory}: not enough host memory; take a smaller model.") from None


def is_wanted(name: str, shape: Shape) -> bool:
    """Whether a tensor belongs to the weights: not a table of positions, nor a second copy of a tied head."""
    return not name.endswith("rotary_emb.inv_freq") and not (shape.is_tied and name == "lm_head.weight")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{path} is not readable JSON ({error}); download the draft model again.") from None
    if not isinstance(value, dict):
        raise OptionError(f"{path} is no JSON object; download the draft model again.")
    return value


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files: one, or those that an index names."""
    index = directory / "model.safetensors.index.json"
    names = sorted(set(read_json(index).get("weight_map", {}).values())) if index.is_file() else ["model.safetensors"]
    for name in names:
        if Path(name).name != name or not (directory / name).is_file():
            raise OptionError(f"{directory} has no {name}; the draft decoder reads safetensors files alone.")
    return [directory / name for name in names]


def tensors(path: Path) -> Iterator[tuple[str, str, list[int], memoryview]]:
    """Name, type, shape and bytes of each tensor, mapped and not copied.

    Raises:
        OptionError: the file is no safetensors file.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        size = int.from_bytes(mapped[:8], "little")
        for name, kind, shape, begin, end in rows_of(mapped[8 : 8 + size], path):
            if not 0 <= begin <= end <= len(mapped) - 8 - size:
                raise OptionError(f"{path} ends before tensor {name!r}; download the draft model again.")
            with memoryview(mapped) as whole, whole[8 + size + begin : 8 + size + end] as data:
                yield name, kind, shape, data


def rows_of(header: bytes, path: Path) -> list[tuple[str, str, list[int], int, int]]:
    """Name, type, shape, first byte and end of each tensor that a file's header names."""
    try:
        named = {name: row for name, row in json.loads(header).items() if name != "__metadata__"}
        return [(name, row["dtype"], list(row["shape"]), *map(int, row["data_offsets"])) for name, row in named.items()]
    except (ValueError, AttributeError, KeyError, TypeError):
        raise OptionError(f"{path} is no safetensors file; download the draft model again.") from None
