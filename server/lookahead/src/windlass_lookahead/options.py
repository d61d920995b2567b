"""Every option of the lookahead cache: default, limits, meaning. Validation and the reference page read these rows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from windlass_lookahead.errors import OptionError

CONFIG_FILE = "lookahead_cache_config.json"
BYTES_PER_ENTRY = 20.0  # a slot of 16 bytes, and its share of the history


@dataclass(frozen=True, slots=True)
class Option:
    """One option: what it means, and from where to where it may go. `kind` bool has no limits, str is a path."""

    kind: type
    meaning: str
    least: float = 0
    most: float = 0


OPTIONS: dict[str, Option] = {
    "cache_mode": Option(int, "0 Raw, 1 Turbo, 2 Turbo and, where it returns nothing, Raw", 0, 2),
    "cache_size": Option(int, "(context, next token) pairs that the shared cache holds", 16, 1_000_000_000),
    "copy_length": Option(int, "most tokens of a draft; the smaller of it and the engine's limit wins", 1, 256),
    "match_length": Option(int, "tokens that must match before Raw copies", 1, 16),
    "turbo_match_length": Option(int, "longest context that Turbo counts", 1, 16),
    "min_match_length": Option(int, "shortest context from which Turbo starts a draft", 1, 16),
    "cell_max_size": Option(int, "next tokens kept for one context", 1, 32),
    "voc_size": Option(int, "size of the vocabulary; token ids are below it", 1, 16_777_216),
    "max_seq_len": Option(int, "longest sequence of the model; drafts end there", 1, 16_777_216),
    "eos_token_id": Option(int, "end of text; nothing is drafted behind it", 0, 16_777_215),
    "top_k": Option(int, "phrases that Raw tries, by frequency and age", 1, 16),
    "threshold": Option(float, "frequency from which a full cell decays before it gives up a token", 0, 1000),
    "decay": Option(float, "factor of that decay", 0, 1),
    "is_hybrid": Option(bool, "Raw falls back to shorter matches, down to one token"),
    "is_debug": Option(bool, "log the metrics each log_interval iterations"),
    "log_interval": Option(int, "iterations between two log lines", 1, 1_000_000_000),
    "target_parallelism": Option(
        int, "most tokens verified in one step; beyond it the least likely drafts go", 1, 1_000_000
    ),
    "top_k_in_cell": Option(
        int, "1: only the most frequent next token of a cell is a candidate; more: the newest too", 1, 32
    ),
    "token_paths_top_k": Option(int, "first tokens whose paths Turbo follows before it takes the best", 1, 8),
    "start_freq": Option(
        float, "first weight of the request's own text against the shared cache; 10 is even", 0.1, 1000
    ),
    "num_threads": Option(int, "threads that draft one batch", 1, 256),
    "global_cache_switch": Option(bool, "share text between requests"),
    "ignore_prompt": Option(bool, "keep prompts out of the cache"),
    "min_gain": Option(float, "least probability of acceptance for which a token is drafted", 0, 1),
    "warmup_file": Option(str, 'JSON file of earlier exchanges: [{"prompt": [ids], "output": [ids]}]'),
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options as values; raises OptionError with one sentence for the first that cannot be used."""

    cache_mode: int = 2
    cache_size: int = 5_000_000
    copy_length: int = 7
    match_length: int = 2
    turbo_match_length: int = 7
    min_match_length: int = 2
    cell_max_size: int = 16
    voc_size: int = 200_000
    max_seq_len: int = 32_768
    eos_token_id: int = 2
    top_k: int = 1
    threshold: float = 2.0
    decay: float = 0.5
    is_hybrid: bool = True
    is_debug: bool = False
    log_interval: int = 3000
    target_parallelism: int = 512
    top_k_in_cell: int = 16
    token_paths_top_k: int = 2
    start_freq: float = 10.0
    num_threads: int = 8
    global_cache_switch: bool = True
    ignore_prompt: bool = False
    min_gain: float = 0.14
    warmup_file: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be used."""
        for field in fields(self):
            check(field.name, getattr(self, field.name))
        if self.min_match_length > self.turbo_match_length:
            raise OptionError(
                f"min_match_length {self.min_match_length} is above turbo_match_length {self.turbo_match_length}; "
                "lower the first or raise the second."
            )

    def as_mapping(self) -> dict[str, Any]:
        """The options by name, as the native core takes them."""
        return asdict(self)


def check(name: str, value: object) -> None:
    """Refuse a value of the wrong type or beyond its limits, in a sentence."""
    option = OPTIONS[name]
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a path"}[option.kind]
    fits = isinstance(value, (int, float) if option.kind is float else option.kind)
    if not fits or (isinstance(value, bool) and option.kind is not bool):
        raise OptionError(f"{name} is {json.dumps(value, default=repr)}; it must be {words}.")
    if isinstance(value, (int, float)) and option.kind is not bool and not option.least <= value <= option.most:
        raise OptionError(f"{name} is {value}; it must be from {option.least:,} to {option.most:,}.")


def options_from_mapping(values: dict[str, Any], where: str, **engine: int) -> Options:
    """Options from a parsed configuration; `engine` holds what the model knows better (voc_size, max_seq_len, …).

    Raises:
        OptionError: `where` has an unknown name or a value that cannot be used.
    """
    if unknown := sorted(set(values) - set(OPTIONS)):
        raise OptionError(f"{where} has no option {unknown[0]!r}; it knows: {', '.join(OPTIONS)}.")
    try:
        return Options(**(values | engine))
    except OptionError as error:
        raise OptionError(f"{where}: {error}") from None


def options_from_directory(directory: Path, **engine: int) -> Options:
    """Options from `lookahead_cache_config.json` in a directory; without the file, the defaults."""
    path = directory / CONFIG_FILE
    if not directory.is_dir():
        raise OptionError(f"the lookahead configuration directory {directory} does not exist.")
    if not path.exists():
        return options_from_mapping({}, str(path), **engine)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{path} is not readable JSON ({error}); correct it or remove it.") from None
    if not isinstance(values, dict):
        raise OptionError(f"{path} must hold one JSON object of options.")
    return options_from_mapping(values, str(path), **engine)


def entries_for_memory(cache_size: int, memory_bytes: int, share: float) -> int:
    """The entries that a share of the host's memory allows, at most cache_size: the smaller of both wins.

    Raises:
        OptionError: the share is not above 0 and at most 1.
    """
    if not 0 < share <= 1:
        raise OptionError(f"cpu-decoding-memory-utilization is {share}; it must be above 0 and at most 1.")
    return max(16, min(cache_size, int(memory_bytes * share / BYTES_PER_ENTRY)))
