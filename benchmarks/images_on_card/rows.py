"""What is served on the card, as rows: a start command as a user writes it, and what is asked of it. Data alone."""

from __future__ import annotations

from dataclasses import dataclass, field

CHAT, TOKENS, TOOL, ADAPTER, DRAFTS, LICENSED, KEYED, REFUSED = (
    "chat", "tokens", "tool", "adapter", "drafts", "licensed", "keyed", "refused",
)  # fmt: skip
DEMO, LONG, ADAPTED, QWEN = "demo", "long", "adapted", "qwen2-7b"
"""Folders of models: the demo model, the same with a context of 32768, with an adapter in it, and random weights."""

SHARED = "--gpu-memory-utilization 0.05 --kv-cache-memory-bytes 1073741824 --max-model-len 1024"
"""Flags of a server that has others beside it on the card: none of them profiles the memory that others move."""
RESUME = (
    "--dtype auto --quantization fp8 --use-lookahead --num-speculative-tokens 4 --max-model-len 32768 "
    "--enable-prefix-caching --disable-log-requests --api-keys mock_api_key --served-model-name model_123"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One server: a command whose paths are the image's, its model at /data/model, and the asks that it must answer."""

    name: str
    line: str
    model: str = DEMO
    asks: tuple[str, ...] = (CHAT,)
    variables: dict[str, str] = field(default_factory=dict)
    note: str = ""


FEATURES: tuple[Row, ...] = (
    *(
        Row(name, f"windlass run {SHARED} --quantization {name}")
        for name in ("none", "fp8", "ifq", "ifq_nf4", "auto", "fp8_per_channel", "mxfp8")
    ),
    Row("lookahead", f"windlass run {SHARED} --use-lookahead", asks=(CHAT, DRAFTS)),
    Row("ifq_nf4 + lookahead", f"windlass run {SHARED} --quantization ifq_nf4 --use-lookahead", asks=(CHAT, DRAFTS)),
    Row("tools", f"windlass run {SHARED} --enable-auto-tool-choice --tool-call-parser hermes", asks=(CHAT, TOOL)),
    Row("adapter", f"windlass run {SHARED}", ADAPTED, (CHAT, ADAPTER)),
    Row("licensed", f"windlass run {SHARED} --enforce-eager", asks=(CHAT, LICENSED)),
    Row("not licensed", f"windlass run {SHARED}", asks=(REFUSED,), variables={"WINDLASS_LICENSE_WAIT": "0"}),
)
"""Several at once: small servers beside each other. `fp8_per_channel` and `mxfp8` are the engine's own methods."""

PRESETS: tuple[Row, ...] = (
    Row("minimum resources", "windlass run --quantization ifq_nf4 --enforce-eager --gpu-memory-utilization 0.95 "
        "--max-model-len 2048", LONG),
    Row("resume parsing", f"windlass run {RESUME}", LONG, (CHAT, KEYED, DRAFTS)),
    Row("native", "vllm serve /data/model --port 8501 -tp 2 --quantization fp8 --max-model-len 32768 "
        "--enable-prefix-caching --disable-log-requests --served-model-name model_123 --num-scheduler-steps 8", LONG),
    Row("module", "python3 -m vllm.entrypoints.openai.api_server --model /data/model --served-model-name model "
        "--trust-remote-code --quantization ifq --use-v2-block-manager --use-lookahead --num-speculative-tokens 6",
        LONG, (CHAT, DRAFTS)),
)  # fmt: skip
"""One after the other, each with the whole card, in the words of the documents. `native` asks for two cards."""

PLANNED: tuple[tuple[str, dict[str, object]], ...] = (
    ("planned none", {}),
    ("planned ifq_nf4", {"quantization": "ifq_nf4"}),
    ("planned fp8", {"quantization": "fp8"}),
    ("planned ifq", {"quantization": "ifq"}),
)
"""`spec.engine` of services that the operator plans for this card; each is started twice, the whole card its own."""
