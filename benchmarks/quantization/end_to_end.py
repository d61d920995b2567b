"""Milliseconds per token and bytes of weights of whole engines, stock vLLM beside our methods, one process each.

    PYTHONPATH=server/src python benchmarks/quantization/end_to_end.py [--methods none ifq_nf4 …] [--out FILE]

Qwen2-7B's shape with random weights: the speed is that of the real model. 220 tokens in, 129 against 1 out; decoding
runs from captured graphs, without torch.compile, whose first start takes minutes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

METHODS = ("none", "fp8_per_channel", "ifq", "ifq_nf4")
BATCHES = (1, 10, 64)
PROMPT_TOKENS, TOKENS, ROUNDS = 220, 128, 3
GIB = 2**30
SHAPE = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "rms_norm_eps": 1e-06,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def measure(method: str, folder: str) -> dict[str, object]:
    """One engine: seconds to start, GiB of weights, and ms per token and for a prompt at each batch size."""
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    import torch
    from vllm import LLM, SamplingParams
    from windlass.quantization.plugin import register

    register()
    begun = time.perf_counter()
    graphs = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 2, 4, 8, 10, 16, 32, 64]}
    engine = LLM(
        folder,
        quantization=None if method == "none" else method,
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="float16",
        max_model_len=1024,
        max_num_seqs=max(BATCHES),
        gpu_memory_utilization=0.6,
        enable_prefix_caching=False,
        compilation_config=graphs,
    )
    runner = engine.llm_engine.model_executor.driver_worker.worker.model_runner
    row: dict[str, object] = {"method": method, "start_s": round(time.perf_counter() - begun, 1)}
    row["model_gib"] = round(runner.model_memory_usage / GIB, 2)

    def seconds(batch: int, tokens: int) -> float:
        prompts = [
            {"prompt_token_ids": [(7 * number + place) % 1000 + 10 for place in range(PROMPT_TOKENS)]}
            for number in range(batch)
        ]
        wanted = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        torch.cuda.synchronize()
        start = time.perf_counter()
        engine.generate(prompts, wanted, use_tqdm=False)
        torch.cuda.synchronize()
        return time.perf_counter() - start

    for batch in BATCHES:
        seconds(batch, 8)
        prompt_s = min(seconds(batch, 1) for _ in range(ROUNDS))
        whole_s = statistics.median(seconds(batch, TOKENS + 1) for _ in range(ROUNDS))
        row[f"ms_per_token_{batch}"] = round((whole_s - prompt_s) / TOKENS * 1000, 3)
        row[f"prompt_ms_{batch}"] = round(prompt_s * 1000, 1)
    return row


def main() -> None:
    """Each method in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(SHAPE))
        if wanted.one:
            print("RESULT", json.dumps(measure(wanted.one, folder)), flush=True)
            return
    rows = []
    for method in wanted.methods:
        done = subprocess.run([sys.executable, __file__, "--one", method], capture_output=True, text=True, check=False)
        found = [line.removeprefix("RESULT ") for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        rows.append(json.loads(found[0]) if found else {"method": method, "failed": done.stderr[-400:]})
        print(json.dumps(rows[-1]), flush=True)
    if wanted.out:
        wanted.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
