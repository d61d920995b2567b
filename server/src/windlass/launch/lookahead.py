"""Whether the lookahead cache runs, and by which words of the engine. Pure.

Where the engine cannot run it, serving goes on without it and one sentence says why; what contradicts itself is
refused. A draft model, an Eagle head or an Eagle-3 head drafts beside it: then the engine's own words name the method.
A draft model on one GPU runs by the same integration without the cache: its steps are captured, and it rests where it
cannot win.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from windlass_sizing import engine_flags
from windlass_sizing.model import draft_words, drafter
from windlass_sizing.settings import engine_words
from windlass_sizing.settings.setting import DEFAULT

from windlass.engine.lookahead.settings import MEMORY_SHARE, VARIABLE, LookaheadSettings
from windlass.errors import UsageError
from windlass.launch import host_drafts, sampling, speculation
from windlass.launch.host_drafts import V2_RUNNER
from windlass.launch.inputs import LaunchInputs, Settings

SWITCH, TOKENS, CONFIG_DIR = "use-lookahead", "num-speculative-tokens", "lookahead-cache-config-dir"
MEMORY, IGNORE_PROMPT = "cpu-decoding-memory-utilization", "ignore-prompt-for-lookahead-cache"
OURS = (TOKENS, CONFIG_DIR, MEMORY, IGNORE_PROMPT)
WORKER_FLAG, SPECULATION = "--worker-cls", "--speculative-config"
DRAFTING = sampling.SPECULATION
HOST = ("windlass.engine.lookahead.vllm_cpu.HostWorker", "windlass.engine.lookahead.vllm_cpu.HostProposer")
DEVICE_WORKER = "windlass.engine.lookahead.vllm_gpu.DeviceWorker"
SCHEDULER_FLAG, SCHEDULER = "--scheduler-cls", "windlass.engine.lookahead.scheduler.LookaheadScheduler"
ANY_LENGTH = "enable_adaptive_verification"
DRAFTS_ALIKE = frozenset(
    {
        *("method", "model", "revision", "quantization", "max_model_len", draft_words.TOKENS, "draft_sample_method"),
        *("rejection_sample_method", "synthetic_acceptance_rates", ANY_LENGTH),
    }
)
"""Keys of the speculative configuration that leave a draft model's steps as they are."""
PLANS_OTHERWISE = frozenset({"--no-async-scheduling", SCHEDULER_FLAG})
LAYOUTS = frozenset(
    {
        *("--data-parallel-size", "-dp", "--prefill-context-parallel-size", "-pcp"),
        *("--decode-context-parallel-size", "-dcp", "--nnodes"),
    }
)
"""The engine's own flags that spread it over GPUs, beside those that are settings."""
LOOKUP = {"prompt_lookup_min": 2, "prompt_lookup_max": 4}
"""The engine checks these of the method that we stand in for; nothing reads them."""
RAY_COPIES = "VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"
COSTS_CONTEXT, CONTEXT_TOKENS = "VLLM_ADAPTIVE_VERIFICATION_PROFILE_CONTEXT_LEN", 16
"""The engine times steps for its cost tables with this many tokens of context for each token, a draft's too. A draft
reads no context of its own (ADR 104); 16 tokens are a block.
"""


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Words for the engine's command line, variables of its processes, and what to tell."""

    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    changed: tuple[str, ...] | None = None
    """The engine's own words of the command line, where what drafts beside the cache changes them."""


def is_asked(settings: Settings) -> bool:
    """By the switch, or by a directory of its configuration when the switch says nothing."""
    switch = settings.get(SWITCH)
    if switch is not None and switch.source != DEFAULT:
        return bool(switch.value)
    return CONFIG_DIR in settings


def drafts_by_thread(start: LaunchInputs) -> bool:
    """Whether a thread of the engine drafts: for the cache, for a model on the host, or to let a draft model rest."""
    return start.on_host is not None or is_asked(start.settings) or (_is_draft_model(start) and not _engines_why(start))


def decide(start: LaunchInputs) -> Lookahead:
    """The words, or why there are none; UsageError for what contradicts itself."""
    host_drafts.check(start)
    if not is_asked(start.settings) and start.on_host is None:
        return _without_cache(start)
    for rule in CONTRADICTIONS:
        if sentence := rule(start):
            raise UsageError(sentence)
    for obstacle in OBSTACLES:
        if why := obstacle(start):
            if start.on_host:
                raise UsageError(f"--{host_drafts.SWITCH} cannot draft: {why}; leave it out")
            return Lookahead(notes=(f"--{SWITCH} is off for this start: {why}",))
    words = _host_words(start) if start.machine.engine == "cpu" else _device_words(start)
    return Lookahead(words, _variables(start), _fixed(start), _changed(start))


def _without_cache(start: LaunchInputs) -> Lookahead:
    """A draft model's words on one GPU, or none; and what has no effect without the cache."""
    given = (name for name in OURS if (one := start.settings.get(name)) and one.source != DEFAULT)
    notes = tuple(f"--{name} has no effect: it counts with --{SWITCH}" for name in given)
    if not _is_draft_model(start):
        return Lookahead(notes=notes)
    if why := _engines_why(start):
        return Lookahead(notes=(*notes, drafter.slow_steps(why)))
    return Lookahead(_device_words(start), _variables(start), (*notes, *_fixed(start)), _changed(start))


def _is_draft_model(start: LaunchInputs) -> bool:
    request = _beside(start)
    return request is not None and request.method == drafter.DRAFT_MODEL


def _engines_why(start: LaunchInputs) -> str:
    """Why a draft model is left to the engine's own speculator; empty where it is not."""
    return next((why for rule in ENGINES_ALONE if (why := rule(start))), "")


def _changed(start: LaunchInputs) -> tuple[str, ...] | None:
    """What drafts beside the cache has each request's drafts verified as far as they are worth it, too."""
    request = _beside(start)
    if request is None or _not_adaptive(start):
        return None
    return *request.others, SPECULATION, json.dumps({ANY_LENGTH: True, **request.config})


def _beside(start: LaunchInputs) -> draft_words.Requested | None:
    """What drafts beside the cache, on one GPU; None where nothing does."""
    request = speculation.requested(start.words)
    if request is None or request.method not in drafter.BESIDE_LOOKAHEAD or start.machine.engine == "cpu":
        return None
    return request if request.directory else None


def _tokens(start: LaunchInputs) -> int:
    """Tokens drafted at most."""
    request = _beside(start) or start.on_host
    return (
        int(str(request.config[draft_words.TOKENS])) if request else start.whole(TOKENS, draft_words.LOOKAHEAD_TOKENS)
    )


def _fixed(start: LaunchInputs) -> tuple[str, ...]:
    why = _not_adaptive(start)
    if start.machine.engine == "cpu" or not why:
        return ()
    return (f"all --{TOKENS} are verified in each step ({why}): text that does not repeat is decoded more slowly",)


def _not_adaptive(start: LaunchInputs) -> str:
    """Why each request's drafts cannot be as long as they deserve."""
    if start.value("enforce-eager"):
        return "--enforce-eager leaves no CUDA graphs"
    if start.value("enable-lora"):
        return "the engine has adapters"
    return ""


def _host_words(start: LaunchInputs) -> tuple[str, ...]:
    worker, proposer = HOST
    config = {"method": "custom_class", "model": proposer, "num_speculative_tokens": _tokens(start)}
    return SPECULATION, json.dumps(config), WORKER_FLAG, worker


def _device_words(start: LaunchInputs) -> tuple[str, ...]:
    words = (*_standing_in(start), WORKER_FLAG, DEVICE_WORKER)
    return words if PLANS_OTHERWISE & {*engine_words.flags(start.words)} else (*words, SCHEDULER_FLAG, SCHEDULER)


def _standing_in(start: LaunchInputs) -> tuple[str, ...]:
    """The method of the engine's that we stand in for; none where the engine drafts beside us."""
    if _beside(start):
        return ()
    config: dict[str, object] = {"method": "ngram_gpu", "num_speculative_tokens": _tokens(start), **LOOKUP}
    if not _not_adaptive(start):
        config[ANY_LENGTH] = True
    return SPECULATION, json.dumps(config)


def _variables(start: LaunchInputs) -> dict[str, str]:
    cache = start.environment.get("XDG_CACHE_HOME") or f"{start.environment.get('HOME', '')}/.cache"
    temporary = start.environment.get("TMPDIR") or "/tmp"  # noqa: S108 - the one directory that a read-only container lets us write
    settings = LookaheadSettings(
        config_dir=str(start.value(CONFIG_DIR) or ""),
        memory_share=float(str(start.value(MEMORY) or MEMORY_SHARE)),
        workers=start.whole("worker-num", 1),
        ignore_prompt=bool(start.value(IGNORE_PROMPT)),
        cache_dir=f"{cache}/windlass/lookahead" if cache.startswith("/") else "",
        counts_dir=f"{temporary}/windlass-lookahead-{start.whole('port', 8000)}",
        has_cache=is_asked(start.settings),
    )
    if start.on_host:
        settings = replace(
            settings,
            draft_model=start.on_host.directory,
            draft_bits=start.whole(host_drafts.BITS, 8),
            draft_rows=start.whole("max-num-seqs", 0),
            draft_threads=start.whole(host_drafts.THREADS, 0),
        )
    copies = start.environment.get(RAY_COPIES)
    ours = {VARIABLE: settings.to_json(), RAY_COPIES: f"{copies},{VARIABLE}" if copies else VARIABLE}
    if start.machine.engine == "cpu" or COSTS_CONTEXT in start.environment:
        return ours
    return {**ours, COSTS_CONTEXT: str(CONTEXT_TOKENS)}


def _two_drafters(start: LaunchInputs) -> str | None:
    said = next((flag for flag in engine_words.flags(start.words) if flag in DRAFTING), None)
    if said is None or _beside(start):
        return None
    return f"--{SWITCH} and {said} both draft; leave one of the two out"


def _one_gpu(start: LaunchInputs) -> str | None:
    gpus = start.whole("tensor-parallel-size", 1)
    if gpus <= 1 or not _beside(start):
        return None
    return (
        f"--{SWITCH} beside what drafts by {SPECULATION} needs one GPU, and --tensor-parallel-size is {gpus}; "
        f"leave --{SWITCH} or {SPECULATION} out"
    )


def _drawn(start: LaunchInputs) -> str | None:
    request = _beside(start)
    if request is None or request.config.get("draft_sample_method", "greedy") == "greedy":
        return None
    return f"--{SWITCH} takes greedy drafts beside it; leave draft_sample_method out of {SPECULATION}"


def _switch(start: LaunchInputs) -> str:
    """The flag that asks for this integration."""
    return SWITCH if is_asked(start.settings) else host_drafts.SWITCH


def _steps(start: LaunchInputs) -> str | None:
    steps = start.whole("num-scheduler-steps", 1)
    if steps <= 1:
        return None
    return f"--{_switch(start)} and --num-scheduler-steps {steps} exclude each other; leave one of the two out"


def _chunks(start: LaunchInputs) -> str | None:
    if not start.value("enable-chunked-prefill"):
        return None
    return f"--{_switch(start)} and --enable-chunked-prefill exclude each other; set --enable-chunked-prefill false"


def _count(start: LaunchInputs) -> str | None:
    length = start.value("max-model-len")
    most = draft_words.drafted_most(length if isinstance(length, int) else None)
    if 1 <= _tokens(start) <= most:
        return None
    return f"--{TOKENS} {_tokens(start)} cannot be drafted; set 1 to {most}"


def _pipeline(start: LaunchInputs) -> str:
    stages = start.whole("pipeline-parallel-size", 1)
    return f"the engine cannot draft over {stages} stages (--pipeline-parallel-size)" if stages > 1 else ""


def _other_worker(start: LaunchInputs) -> str:
    return f"{WORKER_FLAG} names another class" if WORKER_FLAG in engine_words.flags(start.words) else ""


def _no_text(start: LaunchInputs) -> str:
    return "" if sampling.generates(start.model, start.words) else "the model does not generate"


CONTRADICTIONS: tuple[Callable[[LaunchInputs], str | None], ...] = (
    _two_drafters,
    _one_gpu,
    _drawn,
    _steps,
    _chunks,
    _count,
)


def _uncounted(start: LaunchInputs) -> str:
    request = _beside(start)
    tokens = request.config.get(draft_words.TOKENS) if request else None
    return "" if type(tokens) is int else f"{SPECULATION} names no whole number of tokens"


def _engines_layout(start: LaunchInputs) -> str:
    named = [flag for flag in engine_words.flags(start.words) if flag in ("--config", "--enable-dbo")]
    values = engine_words.values(start.words, engine_flags.record(), LAYOUTS)
    named += [f"{flag} {value}" for flag, value in values.items() if value != "1"]
    return f"{named[0]} is set" if named else ""


def _several_gpus(start: LaunchInputs) -> str:
    named = ("tensor-parallel-size", "worker-num", "sequence-parallel-size")
    flag = next((name for name in named if start.whole(name, 1) > 1), "")
    return f"--{flag} is {start.whole(flag, 1)}" if flag else ""


def _older_runner(start: LaunchInputs) -> str:
    return f"{V2_RUNNER} is 0" if start.environment.get(V2_RUNNER) == "0" else ""


def _other_drafting(start: LaunchInputs) -> str:
    request = _beside(start)
    key = next((key for key in (request.config if request else ()) if key not in DRAFTS_ALIKE), "")
    return f"{SPECULATION} has {key}" if key else ""


def _sampled(start: LaunchInputs) -> str:
    return "its drafts are drawn" if _drawn(start) else ""


def _too_many(start: LaunchInputs) -> str:
    return f"it drafts {_tokens(start)} tokens" if _count(start) else ""


ENGINES_ALONE: tuple[Callable[[LaunchInputs], str], ...] = (
    _uncounted,
    _engines_layout,
    _pipeline,
    _several_gpus,
    _older_runner,
    _other_worker,
    _no_text,
    _sampled,
    _other_drafting,
    _too_many,
)
OBSTACLES: tuple[Callable[[LaunchInputs], str], ...] = (_pipeline, _other_worker, _no_text)
