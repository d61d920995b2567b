"""Milliseconds per token and bytes of weights of whole engines, stock vLLM beside our methods, one process each.

    PYTHONPATH=server/src:sizing/src python benchmarks/quantization/end_to_end.py [--methods none …] [--out FILE]

Qwen2-7B's shape with random weights: the speed is that of the real model. 220 tokens in, 129 against 1 out; decoding
runs from captured graphs, without torch.compile, whose first start takes minutes. With --checkpoint FOLDER the weights
are read from bfloat16 files, made there once, and our methods start a second time from what they kept.
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
from typing import Any

METHODS = ("none", "fp8_per_channel", "ifq", "ifq_nf4")
BATCHES = (1, 10, 64)
PROMPT_TOKENS, TOKENS, ROUNDS = 220, 128, 3
GIB = 2**30
SHAPE: dict[str, Any] = {
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


def write_checkpoint(folder: Path) -> None:
    """The model's weights at random, bfloat16, a file for each layer."""
    import torch
    from safetensors.torch import save_file

    hidden, inner, values = SHAPE["hidden_size"], SHAPE["intermediate_size"], 512

    def drawn(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.02).cpu()

    folder.mkdir(parents=True, exist_ok=True)
    for number in range(SHAPE["num_hidden_layers"]):
        at = f"model.layers.{number}"
        sizes = {"q": (hidden, hidden), "k": (values, hidden), "v": (values, hidden), "o": (hidden, hidden)}
        tensors = {f"{at}.self_attn.{name}_proj.weight": drawn(*size) for name, size in sizes.items()}
        tensors |= {f"{at}.self_attn.{name}_proj.bias": drawn(sizes[name][0]) for name in "qkv"}
        tensors |= {f"{at}.mlp.{name}_proj.weight": drawn(inner, hidden) for name in ("gate", "up")}
        tensors[f"{at}.mlp.down_proj.weight"] = drawn(hidden, inner)
        ones = torch.ones(hidden, dtype=torch.bfloat16)
        tensors |= {f"{at}.{name}_layernorm.weight": ones.clone() for name in ("input", "post_attention")}
        save_file(tensors, folder / f"model-{number:02}.safetensors", {"format": "pt"})
    ends = {name: drawn(SHAPE["vocab_size"], hidden) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    save_file(ends | {"model.norm.weight": ones.clone()}, folder / "model-ends.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(SHAPE))


def watch_loading(row: dict[str, object]) -> None:
    """Have vLLM's loader tell its seconds and its peak of GPU memory."""
    import torch
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader

    load = BaseModelLoader.load_model

    def timed(*words: object, **more: object) -> object:
        torch.cuda.reset_peak_memory_stats()
        begun = time.perf_counter()
        model = load(*words, **more)
        row["load_s"] = round(time.perf_counter() - begun, 1)
        row["load_peak_gib"] = round(torch.cuda.max_memory_allocated() / GIB, 2)
        return model

    BaseModelLoader.load_model = timed


def measure(method: str, folder: str, *, is_real: bool, is_start_only: bool) -> dict[str, object]:
    """One engine: seconds to start, GiB of weights, and ms per token and for a prompt at each batch size."""
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    import torch
    from vllm import LLM, SamplingParams
    from windlass.quantization.plugin import register

    register()
    row: dict[str, object] = {"method": method}
    watch_loading(row)
    begun = time.perf_counter()
    graphs = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 2, 4, 8, 10, 16, 32, 64]}
    engine = LLM(
        folder,
        quantization=None if method == "none" else method,
        load_format="windlass" if is_real else "dummy",
        skip_tokenizer_init=True,
        dtype="float16",
        max_model_len=1024,
        max_num_seqs=max(BATCHES),
        gpu_memory_utilization=0.6,
        enable_prefix_caching=False,
        compilation_config=graphs,
    )
    runner = engine.llm_engine.model_executor.driver_worker.worker.model_runner
    row["start_s"] = round(time.perf_counter() - begun, 1)
    if is_start_only:
        return row
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
    parser.add_argument("--checkpoint", type=Path, help="folder of real weights; made when it is empty")
    parser.add_argument("--make", action="store_true", help="only make the checkpoint")
    parser.add_argument("--limit-s", type=float, default=240, help="seconds for one engine")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.checkpoint and not wanted.one and not (wanted.checkpoint / "config.json").exists():
        write_checkpoint(wanted.checkpoint)
    if wanted.make:
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(SHAPE))
        if wanted.one:
            real = wanted.checkpoint is not None
            where = str(wanted.checkpoint) if real else folder
            row = measure(wanted.one, where, is_real=real, is_start_only=wanted.again)
            print("RESULT", json.dumps(row), flush=True)
            return
    rows = []
    for method in wanted.methods:
        rows.append(alone(method, wanted))
        if wanted.checkpoint and method.startswith("ifq"):
            rows.append({**alone(method, wanted, "--again"), "start": "second, from kept weights"})
        if wanted.out:
            wanted.out.write_text(json.dumps(rows, indent=1) + "\n")


def alone(method: str, wanted: argparse.Namespace, *words: str) -> dict[str, object]:
    """One engine in a process of its own; what it measured, or the end of its errors."""
    command = [sys.executable, __file__, "--one", method, *words]
    command += ["--checkpoint", str(wanted.checkpoint)] if wanted.checkpoint else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=wanted.limit_s)
    except subprocess.TimeoutExpired:
        row: dict[str, object] = {"method": method, "failed": f"more than {wanted.limit_s:.0f} s"}
    else:
        found = [line.removeprefix("RESULT ") for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        row = json.loads(found[0]) if found else {"method": method, "failed": done.stderr[-1500:]}
    print(json.dumps(row), flush=True)
    return row


if __name__ == "__main__":
    main()
