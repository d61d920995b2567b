"""The start command's flags as rows: names, variable, default, and the engine's flag that each becomes.

`parse` walks these rows, `resolve` fills them, `windlass run --help` and the docs print them. A new flag is a new row.
Flags that are not here belong to the engine: `engine_words` looks whether it has them, and they pass through untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """How a value is read."""

    TEXT = "text"
    WHOLE = "whole number"
    LIMIT = "whole number, or -1 for none"
    PORT = "port"
    LENGTH = "number of tokens"
    FRACTION = "fraction"
    SWITCH = "true or false"
    NAMES = "list of names"
    ADAPTERS = "list of adapters"


class Effect(Enum):
    """What becomes of a value."""

    ENGINE = "passed to the engine"
    OURS = "done by windlass, unknown to the engine"
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
    Flag("port", Kind.PORT, "port of the API", (), "8501"),
    # Who may ask, what, and how much at a time: the guard's part.
    Flag("api-keys", Kind.NAMES, "bearer keys, separated by commas; none: open to all",
         ("OPENAI_API_KEYS", "VLLM_API_KEY"), aliases=("api-key",), effect=Effect.OURS, secret=True),
    Flag("api-keys-file", Kind.TEXT,
         "file of bearer keys, one a line or as YAML with limits, or a directory of such; read again on change",
         ("OPENAI_API_KEYS_FILE",), effect=Effect.OURS),
    Flag("close-metrics", Kind.SWITCH, "ask for a key at /metrics too", ("CLOSE_METRICS",), "false",
         effect=Effect.OURS),
    Flag("allowed-media-domains", Kind.NAMES, "hosts that images may be fetched from; none: data: URLs only",
         ("ALLOWED_MEDIA_DOMAINS",), effect=Effect.OURS),
    Flag("max-request-mib", Kind.WHOLE, "size of a request's body", ("MAX_REQUEST_MIB",), "32", effect=Effect.OURS),
    Flag("max-json-mib", Kind.WHOLE, "size of a JSON body besides media in base64", ("MAX_JSON_MIB",), "8",
         effect=Effect.OURS),
    Flag("allowed-hosts", Kind.NAMES, "names that the header Host may have, probes excepted; none: any",
         ("ALLOWED_HOSTS",), effect=Effect.OURS),
    Flag("opened-routes", Kind.NAMES, "closed or unknown paths of the engine that every key may use",
         ("OPENED_ROUTES",), effect=Effect.OURS),
    Flag("limit-worker-concurrency", Kind.WHOLE, "requests at a time for each worker; more wait in turn",
         ("MAX_CONCURRENCY",), "128", effect=Effect.OURS),
    Flag("max-waiting-requests", Kind.WHOLE, "requests that may wait; more get 429", ("MAX_WAITING_REQUESTS",), "512",
         effect=Effect.OURS),
    Flag("otlp-traces-endpoint", Kind.TEXT, "where the guard and the engine send their traces by OTLP; none: nowhere",
         ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",)),
    Flag("worker-num", Kind.WHOLE, "engines in one container, behind one port; GPUs = TP × this", ("WORKER_NUM",), "1",
         engine="data-parallel-size"),
    Flag("api-server-count", Kind.WHOLE,
         "API processes behind the port, which share queue, limits and metrics; by cores and requests at a time",
         ("API_SERVER_COUNT",), effect=Effect.OURS),
    Flag("shutdown-timeout", Kind.WHOLE, "seconds that running answers have to end once the server is told to stop",
         ("SHUTDOWN_TIMEOUT",), "60"),
    # How the model is loaded.
    Flag("quantization", Kind.TEXT, "fp8, ifq, ifq_nf4, smoothquant, auto or none, or a method of the engine's own",
         ("QUANTIZATION",), aliases=("q",)),
    Flag("ignore-engine-limits", Kind.SWITCH, "serve what the pinned engine is known not to run, with a warning",
         ("IGNORE_ENGINE_LIMITS",), "false", effect=Effect.OURS),
    Flag("load-format", Kind.TEXT, "how the engine reads weights; windlass with ifq, ifq_nf4 and smoothquant"),
    Flag("dtype", Kind.TEXT, "number format of the computation", ("DTYPE",), "float16", choices=DTYPES),
    Flag("max-model-len", Kind.LENGTH, f"context in tokens; the model's own, cut to {LENGTH_CUT_TOKENS}",
         ("MAX_MODEL_LEN",)),
    Flag("tensor-parallel-size", Kind.WHOLE, "GPUs that share the model; all of the container's", ("TP",),
         aliases=("num-gpus", "tp")),
    Flag("pipeline-parallel-size", Kind.WHOLE, "stages of layers, each on cards of its own; GPUs = TP × this",
         aliases=("pp",)),
    Flag("sequence-parallel-size", Kind.WHOLE, "GPUs that share each long prompt; GPUs = TP × PP × this",
         ("SEQUENCE_PARALLEL_SIZE",), "1", effect=Effect.OURS),
    Flag("gpu-memory-utilization", Kind.FRACTION, "share of each GPU's memory", ("GPU_MEMORY_UTILIZATION",), "0.9"),
    Flag("conservative-dry-run", Kind.SWITCH, "keep full steps' memory free",
         ("CONSERVATIVE_DRY_RUN",), "false", effect=Effect.OURS),
    Flag("enable-prefix-caching", Kind.SWITCH, "reuse the cache of equal starts", ("ENABLE_PREFIX_CACHING",), "true"),
    Flag("trust-remote-code", Kind.SWITCH, "run code of the model directory", ("TRUST_REMOTE_CODE",), "true"),
    Flag("enforce-eager", Kind.SWITCH, "skip compilation and CUDA graphs", ("ENFORCE_EAGER",), "false"),
    Flag("seed", Kind.WHOLE, "seed of the sampling", ("SEED",)),
    Flag("max-num-batched-tokens", Kind.WHOLE, "tokens of one engine step; the context, at least 2048"),
    Flag("max-num-seqs", Kind.WHOLE, "requests of one engine step", (), "256"),
    Flag("enable-chunked-prefill", Kind.SWITCH, "split long prompts over steps"),
    Flag("disable-mem-cache", Kind.SWITCH, "do not read the weights ahead of the engine", ("DISABLE_MEM_CACHE",),
         "false", effect=Effect.OURS),
    # Adapters: those of the model directory count without being named.
    Flag("lora-modules", Kind.ADAPTERS, "LoRA adapters by name: name=path …, or JSON; those of the model directory too",
         ("LORA_MODULES",)),
    Flag("enable-lora", Kind.SWITCH, "serve adapters by name; false leaves those of the model directory out",
         ("ENABLE_LORA",)),
    Flag("max-lora-rank", Kind.WHOLE, "largest rank of an adapter; as the adapters need"),
    Flag("max-loras", Kind.WHOLE, "adapters in one step of the engine; all, at most 4"),
    Flag("max-cpu-loras", Kind.WHOLE, "adapters kept in host memory; all"),
    Flag("base-model", Kind.TEXT, "base of a model directory that is an adapter; looked for beside it",
         ("BASE_MODEL",), effect=Effect.OURS),
    Flag("merge-lora", Kind.TEXT, "adapter that becomes part of the weights, by name; true: the only one",
         ("MERGE_LORA",), effect=Effect.OURS),
    # How answers are made.
    Flag("conv-template", Kind.TEXT, "chat template and tool parser by name; matched from MODEL_ID",
         ("CONV_TEMPLATE",), effect=Effect.OURS),
    Flag("chat-template", Kind.TEXT, "chat template, a file or the text itself"),
    Flag("tool-call-parser", Kind.TEXT, "parser of tool calls, as hermes or qwen3_coder; by the checkpoint's marks"),
    Flag("reasoning-parser", Kind.TEXT, "parser of reasoning, as qwen3; by the checkpoint's marks; none: as text"),
    Flag("enable-auto-tool-choice", Kind.SWITCH, "let the model decide to call tools"),
    Flag("enable-offline-docs", Kind.SWITCH, "GET /docs loads nothing from the internet", (), "true"),
    Flag("generation-config", Kind.TEXT, "directory of a generation_config.json; the model's own"),
    # Drafts from text that was seen before.
    Flag("use-lookahead", Kind.SWITCH, "lookahead cache: draft from the prompt and from earlier text",
         ("USE_LOOKAHEAD",), "false", effect=Effect.OURS),
    Flag("num-speculative-tokens", Kind.WHOLE, "tokens that lookahead, or a draft model, drafts at most",
         ("NUM_SPECULATIVE_TOKENS",), "6", effect=Effect.OURS),
    Flag("lookahead-cache-config-dir", Kind.TEXT,
         "directory of a lookahead_cache_config.json; switches lookahead on too", effect=Effect.OURS),
    Flag("cpu-decoding-memory-utilization", Kind.FRACTION, "share of the host's memory for the lookahead cache", (),
         "0.15", effect=Effect.OURS),
    Flag("ignore-prompt-for-lookahead-cache", Kind.SWITCH, "keep prompts out of the lookahead cache", (), "false",
         effect=Effect.OURS),
    Flag("cpu-draft-worker", Kind.SWITCH, "draft with --speculative-model on the host's cores, not on the GPU",
         ("CPU_DRAFT_WORKER",), "false", effect=Effect.OURS),
    Flag("cpu-draft-bits", Kind.TEXT, "bits of a weight of that draft model: 8, or 4, which read half as much",
         ("CPU_DRAFT_BITS",), "8", choices=("8", "4"), effect=Effect.OURS),
    Flag("cpu-draft-threads", Kind.WHOLE, "cores of each engine that draft; left out: its share of all but two",
         ("CPU_DRAFT_THREADS",), effect=Effect.OURS),
    # Prefixes that the KV cache evicts, kept in host memory.
    Flag("enable-prefix-cache-offload", Kind.SWITCH, "keep evicted blocks of the prefix cache in host memory",
         ("ENABLE_PREFIX_CACHE_OFFLOAD",), "false", effect=Effect.OURS),
    Flag("cpu-prefill-memory-utilization", Kind.FRACTION, "share of the host's memory for them, over all cards", (),
         "0.3", effect=Effect.OURS),
    Flag("prefix-offload-mib", Kind.WHOLE, "host memory for them in MiB, in place of the share",
         ("PREFIX_OFFLOAD_MIB",), effect=Effect.OURS),
    Flag("apc-offload-min-access-threshold", Kind.WHOLE, "times that a block is computed before it is kept", (), "1",
         effect=Effect.OURS),
    Flag("apc-offload-enable-hit-cnt", Kind.SWITCH, "print every 100 blocks where prompts' blocks were found", (),
         "false", effect=Effect.OURS),
    Flag("apc-offload-not-lazy", Kind.SWITCH, "for debugging: wait for each copy to host memory", (), "false",
         effect=Effect.OURS),
    Flag("apc-offload-gpu-evictor-limit", Kind.LIMIT, "for debugging: free blocks of the card that keep a prefix", (),
         "-1", effect=Effect.OURS),
    # For an engine that has flags which our record of it lacks.
    Flag("allow-unknown-flags", Kind.SWITCH, "pass flags on that neither windlass nor its record of the engine knows",
         ("ALLOW_UNKNOWN_FLAGS",), "false", effect=Effect.OURS),
    # What other engines needed: accepted without effect.
    Flag("use-v2-block-manager", Kind.SWITCH, "older engines' block manager", effect=Effect.NONE,
         instead="this engine has one block manager"),
    Flag("num-scheduler-steps", Kind.WHOLE, "older engines' multi-step scheduling", effect=Effect.NONE,
         instead="this engine schedules ahead by itself"),
    Flag("disable-log-requests", Kind.SWITCH, "older engines' quiet log", effect=Effect.NONE,
         instead="requests are logged only with --enable-log-requests"),
)  # fmt: skip

ROW: dict[str, Flag] = {flag.name: flag for flag in FLAGS}
BY_NAME: dict[str, Flag] = {name: flag for flag in FLAGS for name in (flag.name, *flag.aliases)}
