"""How each fact is spelled in config.json: the first key that is present wins.

A table of spellings, so that the modules that read sizes share one vocabulary whatever the model's author wrote.
"""

from __future__ import annotations

SPELLINGS: dict[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "n_embed", "d_model", "dim", "model_dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_transformer_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
    "num_key_value_heads": (
        "num_key_value_heads",
        "multi_query_group_num",
        "num_kv_heads",
        "n_head_kv",
        "n_kv_heads",
        "kv_n_heads",
        "num_attention_groups",
        "num_query_groups",
    ),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim"),
    "value_head_dim": ("v_head_dim", "value_head_dim"),
    "vocab_size": ("padded_vocab_size", "vocab_size", "embedding_size"),
    "intermediate_size": (
        "intermediate_size",
        "ffn_hidden_size",
        "n_inner",
        "ffn_dim",
        "ff_intermediate_size",
        "feed_forward_size",
        "ffn_intermediate_size",
    ),
    "dense_intermediate_size": ("intermediate_size_mlp", "dense_intermediate_size", "ffn_hidden_size_dense"),
    "max_model_len": (
        "max_position_embeddings",
        "seq_length",
        "max_sequence_length",
        "max_seq_length",
        "max_seq_len",
        "model_max_length",
        "n_positions",
        "seq_len",
        "max_target_positions",
    ),
    "num_experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts"),
    "moe_intermediate_size": (
        "moe_intermediate_size",
        "expert_ffn_hidden_size",
        "expert_intermediate_size",
        "moe_ffn_hidden_size",
    ),
    "expert_hidden_size": ("moe_latent_size", "routed_expert_hidden_size"),
    "shared_intermediate_size": (
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
    ),
    "num_shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "dense_layers": ("first_k_dense_replace", "moe_layer_num_skipped", "num_dense_layers", "dense_mlp_idx"),
    "sliding_window": ("sliding_window", "attention_window_size", "sliding_window_size", "attention_chunk_size"),
}

TEXT_PARTS = (
    "text_config",
    "llm_config",
    "language_config",
    "thinker_config",
    "vlm_config",
    "text_model",
    "language_model",
    "language_model_config",
    "lm_config",
    "llm_cfg",
    "decoder_config",
)
FLATTENED = ("attn_config", "ffn_config", "moe_config")
TIED = "tie_word_embeddings"
