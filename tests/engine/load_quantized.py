"""Runs inside the serving image: loads a model with one of our methods and prints, as a line of JSON, what is held.

Usage: load_quantized.py MODEL METHOD [DTYPE [HEAD]]     METHOD `none` loads it unquantized; HEAD 0 leaves the output
head as it is. What is refused is printed as such.
"""

import json
import os
import sys

PROMPTS = ["def add(a, b):", "The sea was calm and", "import json\n"]


def main(model: str, method: str, dtype: str = "float16", head: str = "1") -> dict[str, object]:
    """Greedy tokens, the prompts' log probabilities, and the parameters of the first layer and the head."""
    os.environ |= {
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ALLOW_QUANT_LM_HEAD": head,
        "TORCHDYNAMO_DISABLE": "1",  # log-probabilities are compiled at first use, and the image has no compiler
    }
    import torch
    from vllm import LLM, SamplingParams
    from windlass.quantization import layout, nf4
    from windlass.quantization.linear import QuantizedLinear
    from windlass.quantization.plugin import register

    register()
    settings = {"dtype": dtype, "enforce_eager": True, "max_model_len": 256, "gpu_memory_utilization": 0.2}
    wanted = None if method == "none" else method
    try:
        engine = LLM(model, quantization=wanted, distributed_executor_backend="uni", **settings)
    except ValueError as refusal:
        return {"refused": str(refusal)}
    greedy = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, prompt_logprobs=0)
    outputs = engine.generate(PROMPTS, greedy, use_tqdm=False)
    report: dict[str, object] = {
        "tokens": [list(output.outputs[0].token_ids) for output in outputs],
        "logprobs": [
            next(iter(found.values())).logprob for output in outputs for found in output.prompt_logprobs if found
        ],
    }

    def held(network: torch.nn.Module) -> dict[str, object]:
        layers = {}
        for name, layer in network.named_modules():
            if not isinstance(getattr(layer, "quant_method", None), QuantizedLinear):
                continue
            packed, bits = layer.quant_method.packed(layer), layer.quant_method.bits
            codes, _ = layout.codes(packed, bits)
            layers[name] = {
                "bits": bits,
                "rows": layer.output_size_per_partition,
                "columns": layer.input_size_per_partition,
                "bytes": packed.qweight.nbytes + packed.scales.nbytes,
                "codes": sorted(set(codes.flatten().tolist())) if bits == 4 else [],
                "parameters": sorted(dict(layer.named_parameters())),
            }
        bytes_held = sum(parameter.nbytes for parameter in network.parameters())
        return {"layers": layers, "bytes": bytes_held, "codebook": nf4.values().tolist()}

    return report | engine.apply_model(held)[0]


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(*sys.argv[1:])))
