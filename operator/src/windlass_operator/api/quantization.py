"""The quantization methods that the resource accepts: ours, then vLLM's own names.

A table of names only; what a method costs and needs of a GPU stands in `windlass_sizing.methods`.
"""

OWN = ("fp8", "ifq", "ifq_nf4", "smoothquant", "auto", "none")

# The pinned engine's QuantizationMethods (vLLM 0.32) without fp8, which is in OWN, and without the two it calls
# deprecated; then the names that its plug-ins and other releases bring (bitsandbytes, gguf).
VLLM_OWN = (
    "awq",
    "awq_marlin",
    "auto_awq",
    "gptq",
    "gptq_marlin",
    "auto_gptq",
    "compressed-tensors",
    "modelopt",
    "modelopt_fp4",
    "modelopt_mxfp8",
    "modelopt_mixed",
    "bitsandbytes",
    "gguf",
    "torchao",
    "quark",
    "inc",
    "humming",
    "mxfp4",
    "mxfp8",
    "gpt_oss_mxfp4",
    "deepseek_v4_fp8",
    "moe_wna16",
    "experts_int8",
    "fp8_per_tensor",
    "fp8_per_block",
    "fp8_per_channel",
    "int8_per_channel_weight_only",
    "nvfp4_per_token",
    "online",
)

QUANTIZATIONS = OWN + VLLM_OWN
