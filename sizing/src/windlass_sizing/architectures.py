"""The decoder architectures whose parameters we can count from config.json, as rows.

A row holds only what config.json leaves to the library's defaults: whether the MLP is gated, whether the output head
is the embedding, the head size. An architecture that is not here is still served when the checkpoint's bytes are known.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Architecture:
    """Library defaults of one `model_type`."""

    gated_mlp: bool = True
    tied_by_default: bool = False
    head_dim: int | None = None  # None: hidden_size / num_attention_heads
    mlp_ratio: int | None = None  # intermediate_size / hidden_size where the config may leave it out
    halved_intermediate: bool = False  # QWen v1 writes the two gate halves as one number
    window_pattern: int | None = None  # every n-th layer sees the whole context, the others slide
    max_model_len: int | None = None  # where old configs leave it out


LLAMA_LIKE = Architecture()
GPT_LIKE = Architecture(gated_mlp=False, tied_by_default=True, mlp_ratio=4, max_model_len=2048)

ARCHITECTURES: dict[str, Architecture] = {
    "llama": LLAMA_LIKE,
    "mistral": LLAMA_LIKE,
    "ministral": LLAMA_LIKE,
    "mixtral": LLAMA_LIKE,
    "qwen": Architecture(halved_intermediate=True),
    "qwen2": LLAMA_LIKE,
    "qwen2_moe": LLAMA_LIKE,
    "qwen2_vl": LLAMA_LIKE,
    "qwen2_vl_text": LLAMA_LIKE,
    "qwen2_5_vl": LLAMA_LIKE,
    "qwen2_5_vl_text": LLAMA_LIKE,
    "qwen3": Architecture(head_dim=128),
    "qwen3_moe": Architecture(head_dim=128),
    "qwen3_vl_text": Architecture(head_dim=128),
    "qwen3_vl_moe_text": Architecture(head_dim=128),
    "gemma": Architecture(tied_by_default=True, head_dim=256),
    "gemma2": Architecture(tied_by_default=True, head_dim=256, window_pattern=2),
    "gemma3_text": Architecture(tied_by_default=True, head_dim=256, window_pattern=6),
    "phi3": LLAMA_LIKE,
    "phi": Architecture(gated_mlp=False),
    "internlm2": LLAMA_LIKE,
    "stablelm": LLAMA_LIKE,
    "baichuan": LLAMA_LIKE,
    "xverse": LLAMA_LIKE,
    "exaone": LLAMA_LIKE,
    "minicpm": LLAMA_LIKE,
    "PanguEmbedded": LLAMA_LIKE,
    "mimo": LLAMA_LIKE,
    "olmo2": LLAMA_LIKE,
    "olmo3": Architecture(window_pattern=4),
    "granite": LLAMA_LIKE,
    "granitemoe": LLAMA_LIKE,
    "hunyuan": Architecture(tied_by_default=True),
    "hunyuan_v1_moe": Architecture(tied_by_default=True),
    "deepseek_v2": LLAMA_LIKE,
    "deepseek_v3": LLAMA_LIKE,
    "deepseek_v32": LLAMA_LIKE,
    "gpt_oss": Architecture(head_dim=64),
    "chatglm": LLAMA_LIKE,
    "mpt": GPT_LIKE,
    "bloom": GPT_LIKE,
    "falcon": GPT_LIKE,
    "RefinedWeb": GPT_LIKE,
    "RefinedWebModel": GPT_LIKE,
    "gpt_bigcode": GPT_LIKE,
    "gpt2": GPT_LIKE,
}
