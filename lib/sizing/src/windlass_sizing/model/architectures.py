"""What config.json and the library's defaults do not say of an architecture: how its parts are built, as rows.

Most decoders are built alike (gated MLP, queries, keys, values, output) and need no row. A `model_type` with a row or
with library defaults is a known one; any other is counted as the usual shape and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Architecture:
    """How the parts of one `model_type` are built."""

    gated_mlp: bool = True
    tied_by_default: bool = False
    head_dim: int | None = None  # None: hidden_size / num_attention_heads
    mlp_ratio: int | None = None  # intermediate_size / hidden_size where the config may leave it out
    halved_intermediate: bool = False  # the two gate halves are written as one number
    learned_positions: bool = False  # a row of weights for each position
    gated_attention: bool = False  # a gate as large as the queries
    shared_expert: bool = False  # always one shared expert, of an expert's size
    dense_beside_experts: bool = False  # a plain MLP runs in parallel to the experts
    twin: bool = False  # every layer has two attentions and two plain MLPs around its experts
    stores_head: bool = False  # checkpoints hold the output head although it is the embedding
    window_pattern: int | None = None  # every n-th layer sees the whole context, the others slide
    slides: bool = False  # `sliding_window` alone makes every layer slide
    all_layers: str | None = None  # every layer mixes in this way
    encodes: bool = False  # a text is seen as a whole: no keys and values are kept


USUAL = Architecture()
SLIDING = Architecture(slides=True)
PLAIN_MLP = Architecture(gated_mlp=False)
GPT_LIKE = Architecture(gated_mlp=False, tied_by_default=True, mlp_ratio=4)
GPT_POSITIONS = replace(GPT_LIKE, learned_positions=True)
GATED_ATTENTION = Architecture(gated_attention=True)
STATE_ONLY = Architecture(all_layers="state")
ENCODER = Architecture(encodes=True)
BERT_LIKE = replace(ENCODER, gated_mlp=False, tied_by_default=True, learned_positions=True)

ARCHITECTURES: dict[str, Architecture] = {
    # Older decoders with a plain MLP.
    "gpt2": GPT_POSITIONS,
    "gpt-sw3": GPT_POSITIONS,
    "openai-gpt": GPT_POSITIONS,
    "gpt_bigcode": replace(GPT_POSITIONS, stores_head=True),
    "gpt_neo": GPT_POSITIONS,
    "biogpt": GPT_POSITIONS,
    "opt": GPT_POSITIONS,
    "jais": GPT_LIKE,
    "gptj": replace(GPT_LIKE, tied_by_default=False),
    "codegen": replace(GPT_LIKE, tied_by_default=False),
    "gpt_neox": PLAIN_MLP,
    "gpt_neox_japanese": replace(GPT_LIKE, tied_by_default=False),
    "bloom": GPT_LIKE,
    "mpt": GPT_LIKE,
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel"), replace(GPT_LIKE, stores_head=True)),
    "phi": PLAIN_MLP,
    "phi-msft": replace(GPT_LIKE, tied_by_default=False),
    "mixformer-sequential": replace(GPT_LIKE, tied_by_default=False),
    "xglm": PLAIN_MLP,
    "persimmon": PLAIN_MLP,
    "fuyu": PLAIN_MLP,
    "starcoder2": replace(PLAIN_MLP, slides=True),
    "nemotron": PLAIN_MLP,
    "nemotron_h": PLAIN_MLP,
    "cosmos3_edge_text": PLAIN_MLP,
    "apertus": PLAIN_MLP,
    "arcee": PLAIN_MLP,
    "nanochat": PLAIN_MLP,
    "jais2": PLAIN_MLP,
    # The usual shape under names that the library does not have.
    **dict.fromkeys(
        (
            *("aquila", "baichuan", "bailing_moe", "bailing_moe_v2", "chatglm", "decilm", "dots1", "exaone", "exaone3"),
            *("gigachat", "grok-1", "hunyuan_v1_dense", "internlm", "internlm2", "internlm3", "kimi_k2", "kimi_vl"),
            *("mimo", "minicpm", "minimax_m1", "ministral", "nemotron-nas", "openpangu", "orion", "PanguEmbedded"),
            "phi3small",
            *("sarvam_moe", "skywork", "solar", "step1", "step3_text", "step3_vl", "telechat", "telechat2", "xverse"),
            *("deepseek_vl_v2", "internvl_chat", "minicpmo", "minicpmv", "phi3_v", "phi4mm", "yi", "yuan"),
            *("deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32"),
        ),
        USUAL,
    ),
    "qwen": Architecture(halved_intermediate=True),
    "molmo": Architecture(halved_intermediate=True),
    "hunyuan": Architecture(tied_by_default=True),
    "hunyuan_v1_moe": Architecture(tied_by_default=True, shared_expert=True),
    "recurrent_gemma": Architecture(halved_intermediate=True, tied_by_default=True),
    "longcat_flash": Architecture(twin=True),
    "arctic": Architecture(dense_beside_experts=True),
    "llama4_text": Architecture(shared_expert=True, window_pattern=4),
    # Windows that only the class knows of.
    **dict.fromkeys(("mistral", "mixtral", "phi3", "phimoe", "ministral3", "voxtral_realtime_text"), SLIDING),
    "gemma2": Architecture(window_pattern=2),
    "vaultgemma": Architecture(window_pattern=2),
    "gpt_oss": Architecture(window_pattern=2),
    "gemma3_text": Architecture(window_pattern=6),
    "gemma4_text": Architecture(window_pattern=6, dense_beside_experts=True),
    "gemma3n_text": Architecture(window_pattern=5),
    "cohere2": Architecture(window_pattern=4),
    "olmo3": Architecture(window_pattern=4),
    "exaone4": Architecture(window_pattern=4),
    # Encoders, which give vectors.
    **dict.fromkeys(("bert", "camembert", "roberta", "xlm-roberta", "xlm-roberta-xl"), BERT_LIKE),
    **dict.fromkeys(("modernbert", "nomic_bert", "new", "gte", "snowflake-gte", "embedding_gemma2_text"), ENCODER),
    # Other mixers.
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), GATED_ATTENTION),
    **dict.fromkeys(("afmoe", "muse_glimmer_text", "hrm_text"), GATED_ATTENTION),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba"), STATE_ONLY),
    "falcon_h1": Architecture(all_layers="both"),
}  # fmt: skip

# Not built of layers that a table can tell: their files must be measured.
UNCOUNTED = ("zamba", "zamba2", "jetmoe", "rwkv", "rwkv5", "rwkv6", "xlstm", "blt", "openelm")

NO_HEAD = ("ForTextEncoding", "ForSequenceClassification", "ForTokenClassification", "RewardModel", "Model")
"""Ends of the names of classes that give vectors or grades: they have no output head, and the engine builds none."""
WITH_HEAD = ("ChatModel", "LMModel", "LMHeadModel", "OmniModel", "MossAudioModel", "UltravoxModel")
"""Ends of names of classes that generate all the same."""


def has_head(architecture: str) -> bool:
    """Whether a class of this name has an output head."""
    return architecture.endswith(WITH_HEAD) or not architecture.endswith(NO_HEAD)
