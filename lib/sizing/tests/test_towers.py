"""Vision and audio parts: models whose towers are spelled in their own ways, against their published sizes."""

from __future__ import annotations

import pytest
from windlass_sizing.model.facts import from_config

CONTEXT = {"max_position_embeddings": 32768, "tie_word_embeddings": False}
INTERNLM = {
    "model_type": "internlm2", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 92553, **CONTEXT,
}  # fmt: skip
QWEN = {
    "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "vocab_size": 151666, **CONTEXT,
}  # fmt: skip
PHI = {
    "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "vocab_size": 32064, **CONTEXT,
}  # fmt: skip
MOONLIGHT = {
    "model_type": "deepseek_v3", "hidden_size": 2048, "intermediate_size": 11264, "moe_intermediate_size": 1408,
    "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "n_shared_experts": 2,
    "n_routed_experts": 64, "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": None,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128, "vocab_size": 163840, **CONTEXT,
}  # fmt: skip
GEMMA_3N = {
    "model_type": "gemma3n_text", "hidden_size": 2048, "intermediate_size": [16384] * 35, "num_hidden_layers": 35,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 262400,
    "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 15,
    "sliding_window": 512, "max_position_embeddings": 32768,
}  # fmt: skip
GLM = {
    "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 40, "num_attention_heads": 32,
    "multi_query_attention": True, "multi_query_group_num": 2, "kv_channels": 128, "padded_vocab_size": 151552,
    "seq_length": 8192, "tie_word_embeddings": False,
}  # fmt: skip
SO400M = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}
LARGE = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
EVA = {"hidden_size": 1792, "intermediate_size": 15360, "num_hidden_layers": 63, "num_heads": 16, "image_size": 1120}

PUBLISHED = {
    "InternVL2.5-8B": (
        {"model_type": "internvl_chat", "llm_config": INTERNLM, "vision_config": {**LARGE, "image_size": 448}},
        8.08,
    ),
    "MiniCPM-V-2.6": ({"model_type": "minicpmv", **QWEN, "vision_config": {**SO400M, "image_size": 980}}, 8.10),
    "Phi-3.5-vision": ({"model_type": "phi3_v", **PHI, "img_processor": {"name": "clip_vision_model"}}, 4.15),
    "Kimi-VL-A3B": (
        {"model_type": "kimi_vl", "text_config": MOONLIGHT, "vision_config": {"model_type": "moonvit", **SO400M}},
        16.4,
    ),
    "gemma-3n-E4B": (
        {
            "model_type": "gemma3n",
            "text_config": GEMMA_3N,
            "vision_config": {"model_type": "gemma3n_vision", "architecture": "mobilenetv5_300m_enc"},
            "audio_config": {"model_type": "gemma3n_audio", "hidden_size": 1536, "conf_num_hidden_layers": 12},
        },
        7.85,
    ),
    "GLM-4V-9B": ({"model_type": "chatglm", **GLM, "vision_config": EVA}, 13.9),
}


@pytest.mark.parametrize(("config", "billions"), PUBLISHED.values(), ids=PUBLISHED.keys())
def test_towers_are_counted(config, billions):
    """The whole model within 3 %, and known as one that sees or hears."""
    facts = from_config(config)
    assert facts.multimodal
    assert facts.params / 1e9 == pytest.approx(billions, rel=0.03)
    assert facts.params_how == "counted from config.json"


def test_a_part_that_is_null_is_not_built():
    """A model saved without its audio tower has none."""
    towers = {"vision_config": None, "audio_config": None}
    bare = from_config({"model_type": "gemma4", "text_config": {**QWEN, "model_type": "qwen2"}, **towers})
    assert not bare.multimodal
