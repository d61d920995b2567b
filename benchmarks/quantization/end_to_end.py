"""Milliseconds per token and for a prompt, and bytes, of whole engines: stock vLLM beside our methods.

    PYTHONPATH=server/src:lib/base/src:lib/sizing/src python benchmarks/quantization/end_to_end.py \
        --work FOLDER [--methods none …]

Qwen2-7B's shape with random weights. All engines start at once, each in a process of its own, and are timed one after
the other: 220 tokens in, 257 against 1 out, and prompts of five lengths (--lengths: of fewer). They compile as vLLM
does by default; --eager leaves that out and captures graphs for decoding only. With --real the weights are read from
bfloat16 files, made in the folder once, so that the peak of memory while loading is measured; without it there are
none. `fp8_per_channel` is vLLM's own, `int4` its Marlin kernel. --small runs the same on a CPU with a tiny shape: it
tests the script and measures nothing.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))

import keeper
import shapes

ENDING_S = 30  # until all engines are gone
METHODS = ("none", "fp8_per_channel", "fp8", "ifq", "ifq_nf4", "int4")
LENGTHS = (1, 32, 128, 512, 2048)
GIB = 2**30
EAGER = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [1, 2, 4, 8, 10, 16, 32, 64]}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is timed: batches of prompts that decode, and prompts of (length, batch)."""

    batches: tuple[int, ...] = (1, 10, 64)
    prompt: int = 220
    tokens: int = 256
    prefill: tuple[tuple[int, int], ...] = tuple((length, n) for length in LENGTHS for n in (1, 4, 16))
    rounds: int = 3
    length: int = 4096


SMALL = Plan((1, 3), 20, 8, ((1, 1), (32, 2)), 1, 128)
EXTRA: dict[str, Any] = {}
"""Words of the engine that win over the others; a program that starts engines by `engine` sets them."""


def engine(method: str, wanted: argparse.Namespace) -> Any:  # noqa: ANN401  the engine has no types here
    """One engine in this process."""
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    if method == "int4":
        os.environ["VLLM_DISABLED_KERNELS"] = "MacheteLinearKernel"  # else it takes the place of Marlin on Hopper
    from vllm import LLM
    from windlass.engine.quantization.plugin import register
    from windlass.launch.quantize import METHOD, engine_value

    register()
    plan = SMALL if wanted.small else Plan()
    words: dict[str, Any] = {
        "model": str(wanted.work / ("int4" if method == "int4" else "model")),
        "quantization": None if method in ("none", "int4") else engine_value(METHOD, method),
        "load_format": "windlass" if wanted.real and method != "int4" else "dummy",
        "skip_tokenizer_init": True,
        "dtype": "float16",
        "max_model_len": plan.length,
        "max_num_seqs": max(plan.batches),
        "enable_prefix_caching": False,
    }
    if wanted.small:
        words |= {"enforce_eager": True, "gpu_memory_utilization": 0.2, "distributed_executor_backend": "uni"}
    else:  # several share the card
        words |= {"gpu_memory_utilization": 0.05, "kv_cache_memory_bytes": 3 * GIB}
        words |= {"compilation_config": EAGER} if wanted.eager else {}
    return LLM(**words | EXTRA)


def watch_loading(row: dict[str, object]) -> None:
    """Have vLLM's loader tell its seconds, its peak of GPU memory and what stays."""
    import torch
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader

    load, on_gpu = BaseModelLoader.load_model, torch.cuda.is_available()

    def timed(*words: object, **more: object) -> object:
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        begun = time.perf_counter()
        model = load(*words, **more)
        row["load_s"] = round(time.perf_counter() - begun, 1)
        row["load_peak_gib"] = round(torch.cuda.max_memory_allocated() / GIB, 2) if on_gpu else None
        row["model_gib"] = round(sum(parameter.nbytes for parameter in model.parameters()) / GIB, 4)
        return model

    BaseModelLoader.load_model = timed


def seconds(llm: Any, batch: int, length: int, tokens: int) -> float:  # noqa: ANN401
    """Of `batch` prompts of `length` tokens that get `tokens` more."""
    from vllm import SamplingParams

    prompts = [
        {"prompt_token_ids": [(7 * number + place) % 1000 + 10 for place in range(length)]} for number in range(batch)
    ]
    wanted = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    start = time.perf_counter()
    llm.generate(prompts, wanted, use_tqdm=False)
    return time.perf_counter() - start


def measure(llm: Any, plan: Plan) -> dict[str, object]:  # noqa: ANN401
    """Milliseconds per token at each batch size, and of each prompt."""
    row: dict[str, object] = {}
    for batch in plan.batches:
        seconds(llm, batch, plan.prompt, 8)
        prompt_s = min(seconds(llm, batch, plan.prompt, 1) for _ in range(plan.rounds))
        whole_s = statistics.median(seconds(llm, batch, plan.prompt, plan.tokens + 1) for _ in range(plan.rounds))
        row[f"ms_per_token_{batch}"] = round((whole_s - prompt_s) / plan.tokens * 1000, 3)
        row[f"prompt_ms_{batch}"] = round(prompt_s * 1000, 1)
    for length, batch in plan.prefill:
        seconds(llm, batch, length, 1)
        row[f"prefill_ms_{length}x{batch}"] = round(min(seconds(llm, batch, length, 1) for _ in range(5)) * 1000, 2)
    return row


def one(method: str, wanted: argparse.Namespace) -> None:
    """Start, wait for a line, measure, stay: an engine that ends takes time of whoever is measured then."""
    row: dict[str, object] = {"method": method, "compiled": not (wanted.eager or wanted.small)}
    watch_loading(row)
    begun = time.perf_counter()
    llm = engine(method, wanted)
    row["start_s"] = round(time.perf_counter() - begun, 1)
    print("READY", flush=True)
    if not sys.stdin.readline():
        return
    prefill = tuple(place for place in Plan().prefill if place[0] in wanted.lengths)
    row |= measure(llm, SMALL if wanted.small else Plan(prefill=prefill))
    print("RESULT", json.dumps(row), flush=True)
    sys.stdin.readline()


class Started:
    """An engine's process, read as it talks."""

    def __init__(
        self, method: str, wanted: argparse.Namespace, program: str = __file__, more: tuple[str, ...] = ()
    ) -> None:
        self.method, self.lines, self.errors = method, [], []
        words = [word for name in ("small", "eager", "real") if getattr(wanted, name) for word in (f"--{name}",)]
        words += ["--lengths", *map(str, wanted.lengths)]
        command = [sys.executable, program, "--one", method, "--work", str(wanted.work), *words, *more]
        own = {"VLLM_CACHE_ROOT": str(wanted.work / f"cache-{method}"), "WINDLASS_QUANTIZED_CACHE": "off"}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = keeper.start(command, patience_s=1, text=True, env=os.environ | own, **pipes)
        for stream, kept in ((self.process.stdout, self.lines), (self.process.stderr, self.errors)):
            threading.Thread(target=lambda s=stream, k=kept: k.extend(iter(s.readline, "")), daemon=True).start()

    def wait(self, mark: str, deadline: float) -> str:
        """Its line that begins with `mark`; empty when it ended or the time is over."""
        while time.monotonic() < deadline:
            for line in self.lines[:]:
                if line.startswith(mark):
                    return line.removeprefix(mark)
            if self.process.poll() is not None:
                deadline = min(deadline, time.monotonic() + 1)  # what it said last may still come
            time.sleep(0.05)
        return ""

    def row(self, deadline: float) -> dict[str, object]:
        """Let it measure; what it found, or how its errors end."""
        found = ""
        if self.process.poll() is None:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            found = self.wait("RESULT", deadline)
        return json.loads(found) if found else {"method": self.method, "failed": "".join(self.errors)[-1500:]}

    def end(self, deadline: float) -> None:
        """Let it go, by force when it takes too long."""
        with contextlib.suppress(OSError):  # it may have ended by itself
            self.process.stdin.close()
        try:
            self.process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait()


def main() -> None:
    """All engines at once, timed one by one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for models and caches")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS, help="of prompts, of those by default")
    parser.add_argument("--limit-s", type=float, default=500, help="seconds for everything")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    for name in ("eager", "real", "small"):
        parser.add_argument(f"--{name}", action="store_true")
    wanted = parser.parse_args()
    if wanted.one:
        one(wanted.one, wanted)
        return
    deadline = time.monotonic() + wanted.limit_s
    shape = shapes.SMALL if wanted.small else shapes.QWEN2_7B
    shapes.describe(wanted.work / "model", shape)
    shapes.describe(wanted.work / "int4", shape | {"quantization_config": shapes.INT4, "torch_dtype": "float16"})
    if wanted.real and not (wanted.work / "model/model-ends.safetensors").exists():
        shapes.fill(wanted.work / "model", shape, "cpu" if wanted.small else "cuda")
    started = [Started(method, wanted) for method in wanted.methods]
    rows = []
    try:
        for engine_of in started:
            engine_of.wait("READY", deadline)
        for engine_of in started:
            rows.append(engine_of.row(deadline))
            print(json.dumps(rows[-1]), flush=True)
            if wanted.out:
                wanted.out.write_text(json.dumps(rows, indent=1) + "\n")
    finally:
        until = time.monotonic() + ENDING_S
        for engine_of in started:
            engine_of.end(until)


if __name__ == "__main__":
    main()
