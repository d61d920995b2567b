"""The start command's flags as rows: names, variable, default, and the engine's flag that each becomes.

`parse` walks these rows, `resolve` fills them, `windlass run --help` and the docs print them. A new flag is a new row.
Flags that are not here belong to the engine and pass through untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """How a value is read."""

    TEXT = "text"
    WHOLE = "whole number"
    LENGTH = "number of tokens"
    FRACTION = "fraction"
    SWITCH = "true or false"
    NAMES = "list of names"


class Effect(Enum):
    """What becomes of a value."""

    ENGINE = "passed to the engine"
    NONE = "accepted without effect"
    MISSING = "refused unless it says no"


@dataclass(frozen=True, slots=True)
class Flag:
    """One row: `name` is the engine's flag too, unless `engine` says another."""

    name: str
    kind: Kind
    help: str
    variables: tuple[str, ...] = ()
    default: str | None = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    engine: str = ""
    effect: Effect = Effect.ENGINE
    secret: bool = False
    instead: str = ""
    """What to do in place of a flag that has no effect, or that this version refuses."""

    @property
    def engine_flag(self) -> str:
        """The engine's name for it."""
        return f"--{self.engine or self.name}"


DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
LENGTH_CUT_TOKENS = 8192
"""A model's own context is cut to this unless the user asks for more."""

FLAGS: tuple[Flag, ...] = (
    # What is served, and where.
    Flag("model", Kind.TEXT, "model directory", ("MODEL", "MODEL_PATH"), "/data/model", ("model-path",)),
    Flag("served-model-name", Kind.NAMES, "names that requests use", ("MODEL_ID",), "model"),
    Flag("port", Kind.WHOLE, "port of the API", (), "8501"),
    Flag("api-keys", Kind.NAMES, "bearer keys, separated by commas", ("OPENAI_API_KEYS",),
         aliases=("api-key",), engine="api-key", secret=True),
    # How the model is loaded.
    Flag("quantization", Kind.TEXT, "quantization method; none keeps the weights as they are", ("QUANTIZATION",),
         aliases=("q",)),
    Flag("dtype", Kind.TEXT, "number format of the computation", ("DTYPE",), "float16", choices=DTYPES),
    Flag("max-model-len", Kind.LENGTH, f"context in tokens; the model's own, cut to {LENGTH_CUT_TOKENS}",
         ("MAX_MODEL_LEN",)),
    Flag("tensor-parallel-size", Kind.WHOLE, "GPUs that share the model; all of the container's", ("TP",),
         aliases=("num-gpus", "tp")),
    Flag("gpu-memory-utilization", Kind.FRACTION, "share of each GPU's memory", ("GPU_MEMORY_UTILIZATION",), "0.9"),
    Flag("enable-prefix-caching", Kind.SWITCH, "reuse the cache of equal starts", ("ENABLE_PREFIX_CACHING",), "true"),
    Flag("trust-remote-code", Kind.SWITCH, "run code of the model directory", ("TRUST_REMOTE_CODE",), "true"),
    Flag("enforce-eager", Kind.SWITCH, "skip compilation and CUDA graphs", ("ENFORCE_EAGER",), "false"),
    Flag("seed", Kind.WHOLE, "seed of the sampling", ("SEED",)),
    Flag("max-num-batched-tokens", Kind.WHOLE, "tokens of one engine step; the context, at least 2048"),
    Flag("max-num-seqs", Kind.WHOLE, "requests of one engine step", (), "256"),
    Flag("enable-chunked-prefill", Kind.SWITCH, "split long prompts over steps"),
    # How answers are made.
    Flag("chat-template", Kind.TEXT, "chat template, a file or the text itself"),
    Flag("tool-call-parser", Kind.TEXT, "parser of tool calls, as llama3_json, hermes, mistral, internlm"),
    Flag("enable-auto-tool-choice", Kind.SWITCH, "let the model decide to call tools"),
    # What this version has no engine for: a row that says yes is refused.
    Flag("use-lookahead", Kind.SWITCH, "lookahead decoding", ("USE_LOOKAHEAD",), effect=Effect.MISSING,
         instead="leave --use-lookahead out"),
    Flag("worker-num", Kind.WHOLE, "engines in one container", ("WORKER_NUM",), effect=Effect.MISSING,
         instead="leave --worker-num out, and set spec.replicas for more engines"),
    # What other engines needed: accepted, and said to be without effect.
    Flag("num-speculative-tokens", Kind.WHOLE, "tokens that lookahead drafts", ("NUM_SPECULATIVE_TOKENS",),
         effect=Effect.NONE, instead="it counts only with lookahead, which this version does not have"),
    Flag("limit-worker-concurrency", Kind.WHOLE, "requests at a time", ("MAX_CONCURRENCY",), effect=Effect.NONE,
         instead="the engine queues what it cannot run; --max-num-seqs bounds a step"),
    Flag("use-v2-block-manager", Kind.SWITCH, "older engines' block manager", effect=Effect.NONE,
         instead="this engine has one block manager"),
    Flag("num-scheduler-steps", Kind.WHOLE, "older engines' multi-step scheduling", effect=Effect.NONE,
         instead="this engine schedules ahead by itself"),
    Flag("disable-log-requests", Kind.SWITCH, "older engines' quiet log", effect=Effect.NONE,
         instead="requests are logged only with --enable-log-requests"),
)  # fmt: skip

ROW: dict[str, Flag] = {flag.name: flag for flag in FLAGS}
BY_NAME: dict[str, Flag] = {name: flag for flag in FLAGS for name in (flag.name, *flag.aliases)}

OUR_QUANTIZATIONS = ("ifq", "ifq_nf4", "smoothquant", "auto")
"""Methods of ours that this version names but cannot run yet."""
