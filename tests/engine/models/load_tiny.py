"""Runs inside the serving image: loads tiny models from /models and prints what came of it as one line of JSON."""

import json
import os
import sys
from pathlib import Path

MODELS = Path("/models")
IN_PROCESS = {"distributed_executor_backend": "uni", "gpu_memory_utilization": 0.2}  # on a CPU: a share of all memory
SPECIAL = {
    "gqa": {"enable_lora": True, "max_lora_rank": 8},
    "mla": {
        "attention_config": {"backend": "CPU_MLA"}
    },  # left to itself, vLLM 0.32 takes AMX's and then a block size it refuses
}


def in_transformers() -> dict[str, list[str]]:
    """The weights of each model that are missing, left over or of another shape."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    found = {}
    for folder in sorted(path for path in MODELS.iterdir() if (path / "config.json").exists()):
        loader = AutoModelForImageTextToText if folder.name == "vision" else AutoModelForCausalLM
        _, info = loader.from_pretrained(folder, output_loading_info=True)
        found[folder.name] = [f"{key}: {name}" for key, names in info.items() for name in names]
    return found


def in_vllm(kinds: list[str]) -> dict[str, list[int]]:
    """Eight greedy tokens of each model, and of `gqa` with the adapter as `lora`."""
    os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1"}
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest

    greedy = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    settings = {"dtype": "float32", "enforce_eager": True, "max_model_len": 256, **IN_PROCESS}
    found = {}
    for kind in kinds:
        more = SPECIAL.get(kind, {})
        engine = LLM(str(MODELS / kind), **settings, **more)
        found[kind] = list(engine.generate("def add(a, b):", greedy, use_tqdm=False)[0].outputs[0].token_ids)
        if more.get("enable_lora"):
            adapter = LoRARequest("lora", 1, str(MODELS / "lora"))
            output = engine.generate("def add(a, b):", greedy, use_tqdm=False, lora_request=adapter)
            found["lora"] = list(output[0].outputs[0].token_ids)
        del engine
    return found


if __name__ == "__main__":
    print("RESULT " + json.dumps(in_transformers() if sys.argv[1] == "transformers" else in_vllm(sys.argv[2:])))
