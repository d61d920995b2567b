"""A draft model on the host's cores (`--cpu-draft-worker`): its words, which the engine does not get, and what
contradicts it. Pure.

The lookahead integration drafts with it, and `lookahead` writes the engine's words. A start that cannot have it is
refused: without the flag the draft model would take memory and time of the GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windlass_sizing.model import drafter
from windlass_sizing.model.draft_words import TOKENS, TOKENS_DEFAULT, Requested
from windlass_sizing.placement.host_draft import CORES_MAX
from windlass_sizing.settings.parse import CommandLine
from windlass_sizing.settings.setting import DEFAULT

from windlass.errors import UsageError
from windlass.launch import speculation
from windlass.launch.inputs import LaunchInputs, Settings

SWITCH, BITS, THREADS = "cpu-draft-worker", "cpu-draft-bits", "cpu-draft-threads"
MODEL = "--speculative-model"
V2_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
KNOWN = frozenset({"method", "model", TOKENS, "draft_sample_method"})
"""Keys of the speculative configuration that mean the same on the host."""


def is_asked(settings: Settings) -> bool:
    """Whether the draft model is to run on the host."""
    switch = settings.get(SWITCH)
    return switch is not None and bool(switch.value)


def notes(settings: Settings) -> tuple[str, ...]:
    """A sentence for bits or threads that are set where nothing drafts on the host."""
    if is_asked(settings):
        return ()
    given = (name for name in (BITS, THREADS) if (one := settings.get(name)) and one.source != DEFAULT)
    return tuple(f"--{name} has no effect: it counts with --{SWITCH}" for name in given)


def taken(line: CommandLine, settings: Settings) -> tuple[CommandLine, Requested | None]:
    """The line without what drafts on the host, and what does: None where nothing is asked to.

    UsageError for a switch without a draft model.
    """
    if not is_asked(settings):
        return line, None
    found = speculation.requested(line.engine_words)
    if found is None:
        raise UsageError(f"--{SWITCH} drafts with a model of its own; name its directory with {MODEL}, or leave it out")
    config = {TOKENS: TOKENS_DEFAULT, **found.config}
    return replace(line, engine_words=found.others), replace(found, config=config)


def check(start: LaunchInputs) -> None:
    """UsageError for what contradicts drafts on the host."""
    if start.on_host is None:
        return
    for rule in CONTRADICTIONS:
        if sentence := rule(start, start.on_host):
            raise UsageError(f"--{SWITCH} {sentence}")


def _other_method(_: LaunchInputs, asked: Requested) -> str | None:
    if asked.directory and asked.method in ("", drafter.DRAFT_MODEL):
        return None
    by = asked.method or asked.config.get("model") or "nothing"
    return (
        f"runs complete draft models, and the speculative configuration drafts by {by}; "
        f"name a draft model's directory with {MODEL}, or leave --{SWITCH} out"
    )


def _no_gpu(start: LaunchInputs, _: Requested) -> str | None:
    if start.machine.engine != "cpu":
        return None
    return "drafts beside a GPU, and here the engine itself has the CPU's cores; leave it out"


def _older_runner(start: LaunchInputs, _: Requested) -> str | None:
    if start.environment.get(V2_RUNNER) != "0":
        return None
    return f"needs the engine's V2 runner, and {V2_RUNNER} is 0; leave one of the two out"


def _not_greedy(_: LaunchInputs, asked: Requested) -> str | None:
    if asked.config.get("draft_sample_method", "greedy") == "greedy":
        return None
    return "drafts greedily; leave draft_sample_method out of the speculative configuration"


def _no_count(_: LaunchInputs, asked: Requested) -> str | None:
    count = asked.config[TOKENS]
    if isinstance(count, int) and not isinstance(count, bool):
        return None
    return f"drafts a whole number of tokens, and {TOKENS} is {count!r}; set at least 1"


def _cores(start: LaunchInputs, _: Requested) -> str | None:
    threads = start.whole(THREADS, 1)
    if 1 <= threads <= CORES_MAX:
        return None
    return f"drafts on 1 to {CORES_MAX} cores, and --{THREADS} is {threads}; leave it out for all free ones"


def _for_the_card(_: LaunchInputs, asked: Requested) -> str | None:
    key = next((key for key in asked.config if key not in KNOWN), None)
    return None if key is None else f"does not go with {key} of the speculative configuration; leave one of the two out"


CONTRADICTIONS: tuple[Callable[[LaunchInputs, Requested], str | None], ...] = (
    _no_gpu,
    _other_method,
    _older_runner,
    _not_greedy,
    _no_count,
    _cores,
    _for_the_card,
)
