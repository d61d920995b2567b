"""Milliseconds of processor time of vLLM on a CPU: of a generated token, and of a token of a prompt.

    python benchmarks/instruction_sets/engine.py [float32|bfloat16]

Runs in the serving image, and in its variant with AVX2 alone; `make bench-cpu` runs both. Weights are random, in the
shape of a Qwen2 with 12 layers. Processor time of one thread depends little on other load.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 12,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "rope_theta": 1e6,
}
TOKENS, PROMPT, TIMES = 16, 400, 5


def main(dtype: str) -> None:
    """Print the medians of one type."""
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine computes in this process, whose time is read
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",  # others would spin while they wait
    }
    from vllm import LLM, SamplingParams

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(CONFIG))
        engine = LLM(
            folder, load_format="dummy", skip_tokenizer_init=True, dtype=dtype, max_model_len=1024, enforce_eager=True
        )

    def took_ms(prompt: list[int], tokens: int) -> float:
        sampling = SamplingParams(
            max_tokens=tokens, min_tokens=tokens, ignore_eos=True, temperature=0, detokenize=False
        )
        began = time.process_time()
        engine.generate([{"prompt_token_ids": prompt}], sampling, use_tqdm=False)
        return (time.process_time() - began) * 1000

    took_ms(list(range(5, 300)), 2)  # the first request pays for what is made once
    one = [took_ms([10 + turn] * 4, 1) for turn in range(TIMES)]
    many = [took_ms([10 + turn] * 4, TOKENS + 1) for turn in range(TIMES)]
    read = [took_ms(list(range(1000 * turn + 1000, 1000 * turn + 1000 + PROMPT)), 1) for turn in range(TIMES)]
    token_ms = statistics.median(last - first for first, last in zip(one, many, strict=True)) / TOKENS
    prompt_ms = statistics.median(last - first for first, last in zip(one, read, strict=True)) / (PROMPT - 4)
    print(f"{dtype:>8}: {token_ms:6.1f} ms a token, {prompt_ms:6.2f} ms a token of a prompt", flush=True)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["float32"]))
