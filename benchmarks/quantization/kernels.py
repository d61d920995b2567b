"""Times the fused NF4, INT8 and FP8 products against float16 and, for FP8, against vLLM's own. Needs a GPU.

Every figure is microseconds of one product: the median of replays of a CUDA graph that walks over copies of the
weights, together larger than the L2 cache. Every kernel is first compared with a float64 product of the dequantized
weights. FP8 with more rows than our kernel takes needs vLLM, and is skipped without it. Usage:

    PYTHONPATH=server/src python benchmarks/quantization/kernels.py --out result.json --minutes 4
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from candidates import few, packed_streams, sensible, splits, streams
from tables import SHAPES, table, tilings
from timing import copies, error, graph_us, issue_us
from weights import quantized
from windlass.engine import nvrtc
from windlass.engine.quantization.fp8.product import by_cutlass, on_gpu
from windlass.engine.quantization.kernels import gemm
from windlass.engine.quantization.kernels.choice import choose_fp8, choose_stream
from windlass.engine.quantization.kernels.tiling import FP8, FP8_BF16, Kind, PackedStream, Stream, Tiling
from windlass.engine.quantization.kernels.tokens import Tokens
from windlass.engine.quantization.product import product

FEW = [1, 2, 4, 8, 10, 16, 24, 32, 48, 64, 96, 128]
MANY = [192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192]
WORST_ERROR = 1e-3  # of the product, relative in the Frobenius norm: float16 rounding of the output is 2e-4
WORST_BF16 = 4e-3
WORST_TOKENS = 5e-2  # of x rounded to E4M3, which is 2.6e-2 away; fp8_exactly.py knows better
FP8_ROWS = 8  # of x that our kernel takes as they are
FP8_KINDS = (FP8, FP8_BF16)
KINDS: dict[str, Kind] = {"4": 4, "8": 8, FP8: FP8, FP8_BF16: FP8_BF16}


def compiled(kernel: tuple[tuple[str, ...], str, tuple[str, ...]]) -> str:
    """Put a kernel into the cache folder; return what went wrong."""
    try:
        nvrtc.cubin(*kernel)
    except nvrtc.KernelError as problem:
        return str(problem)[:300]
    return ""


class Sweep:
    """The figures of one run; ends quietly when its time is over."""

    def __init__(self, minutes: float, out: Path, sweeping: bool) -> None:
        self.deadline, self.out, self.sweeping = time.monotonic() + 60 * minutes, out, sweeping
        self.found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
        self.architecture = nvrtc.architecture(0)
        self.candidates: list[Tiling | Stream] = []
        self.broken: set[tuple[Kind, Tiling | Stream]] = set()
        self.first: Kind | None = None  # with which float16 is timed
        self.only_streams = False

    def over(self) -> bool:
        """Whether the time of this run is spent."""
        return time.monotonic() > self.deadline

    def note(self, **row: object) -> None:
        """Keep a figure."""
        self.found["rows"].append(row)

    def write(self) -> None:
        """Write what was found so far."""
        self.out.write_text(json.dumps(self.found, indent=0))

    def compile(self, kind: Kind) -> list[Tiling | Stream]:
        """Compile every tiling on all cores; return those that compiled."""
        is_hopper = self.architecture == "sm_90a"
        wanted: list[Tiling | Stream] = []
        if not is_hopper or (kind in FP8_KINDS and not self.only_streams):
            wanted += few(kind, ahead=is_hopper)
        if is_hopper:
            wanted += streams() if kind in FP8_KINDS else packed_streams(kind)
        with ProcessPoolExecutor(min(14, os.cpu_count() or 1), multiprocessing.get_context("spawn")) as pool:
            made = list(
                pool.map(compiled, [(tiling.files, self.architecture, tiling.macros(kind)) for tiling in wanted])
            )
        for tiling, problem in zip(wanted, made, strict=True):
            if problem:
                print("compile", kind, tiling, problem)
        return [tiling for tiling, problem in zip(wanted, made, strict=True) if not problem]

    def shape(self, name: str, kind: Kind, rounds: list[int]) -> None:
        """Time one shape: float16, dequantizing first, the chosen tiles and, in a sweep, all of them."""
        rows, columns = SHAPES[name]
        dtype = torch.bfloat16 if kind == FP8_BF16 else torch.float16
        weight = (torch.randn(rows, columns, device="cuda") * 0.02).to(dtype)
        packed, exact = quantized(weight, kind)
        if kind not in FP8_KINDS and (far := error(gemm.dequantized(*packed, int(kind)), exact)) > WORST_ERROR:
            print("WRONG dequantize", name, kind, far)
        cold, whole = copies(packed), copies((weight,))
        for m in rounds:
            if self.over():
                return
            x = torch.randn(m, columns, device="cuda").to(dtype)
            wanted = x.double() @ exact.T
            if kind == self.first:
                us = graph_us([lambda x=x, w=w: torch.nn.functional.linear(x, w[0]) for w in whole])
                self.note(shape=name, m=m, method="fp16", us=us)
            if kind in FP8_KINDS:
                self.fp8(name, kind, (x, wanted), cold)
            else:
                self.packed(name, int(kind), (x, wanted), cold)
            if self.sweeping:
                self.tilings(name, kind, (x, wanted), cold)
        del exact, cold, whole

    def packed(self, name: str, bits: int, product_: tuple[torch.Tensor, torch.Tensor], cold: list[Any]) -> None:
        """Time packed weights: dequantizing first, and what is chosen."""
        rows, (x, wanted) = SHAPES[name][0], product_
        m = len(x)
        if m >= 64 and rows < 100000:
            calls = [lambda x=x, p=p: torch.nn.functional.linear(x, gemm.dequantized(*p, bits)) for p in cold[:4]]
            self.note(shape=name, m=m, method=f"dequantize{bits}", us=graph_us(calls), error=error(calls[0](), wanted))
        calls = [lambda x=x, p=p: product(x, *p, None, bits, rows) for p in cold]
        self.note(shape=name, m=m, method=f"chosen{bits}", us=graph_us(calls), error=error(calls[0](), wanted))
        self.note(shape=name, m=m, method=f"host{bits}", us=issue_us(calls[0]))

    def fp8(self, name: str, kind: Kind, product_: tuple[torch.Tensor, torch.Tensor], cold: list[Any]) -> None:
        """Time FP8: what is chosen, and vLLM's product behind our tokens and behind its own."""
        x, wanted = product_
        m, (tokens, token_scales) = len(x), Tokens(x).quantized()
        ways: dict[str, Callable[..., torch.Tensor]] = {}
        calls = [lambda p=p: on_gpu(x, *p, None) for p in cold]
        far = error(calls[0](), wanted)
        is_exact = (
            m <= FP8_ROWS and choose_stream((m, *SHAPES[name]), *gemm.card(0)) is None
        )  # else x is rounded to E4M3
        worth = {"error" if is_exact else "error_with_tokens": far}
        self.note(shape=name, m=m, method=f"chosen_{kind}", us=graph_us(calls), **worth)
        self.note(shape=name, m=m, method=f"host_{kind}", us=issue_us(calls[0]))
        tiling = choose_fp8((m, *SHAPES[name]), *gemm.card(0))
        if tiling and tiling.ahead:  # what beginning early is worth
            late = replace(tiling, ahead=False)
            us = graph_us([lambda p=p: gemm.fused_fp8(x, *p, None, late) for p in cold])
            self.note(shape=name, m=m, method=f"late_{kind}", us=us)
        if engine := _engine():
            ways |= {"tokens": lambda w, s: by_cutlass(Tokens(x), w, s, None), "vllm": lambda w, s: _as_vllm(x, w, s)}
            ways["cutlass"] = lambda w, s: engine.cutlass_scaled_mm(tokens, w, token_scales, s, x.dtype)
        for way, call in ways.items():
            calls = [lambda p=p, call=call: call(*p) for p in cold]
            far = error(calls[0](), wanted)  # of x as it is, which here is rounded to E4M3: not to be compared
            self.note(shape=name, m=m, method=f"{way}_{kind}", us=graph_us(calls), error_with_tokens=far)

    def tilings(self, name: str, kind: Kind, product_: tuple[torch.Tensor, torch.Tensor], cold: list[Any]) -> None:
        """Time every sensible tile size; `product_` is x and the exact result."""
        rows, columns = SHAPES[name]
        x, wanted = product_
        m = len(x)

        def run(weights: tuple[torch.Tensor, ...], tiling: Any) -> torch.Tensor:  # noqa: ANN401  of either kind
            if isinstance(tiling, Stream) and not isinstance(tiling, PackedStream):
                return gemm.streamed(Tokens(x).quantized(tiling.bm), *weights, None, tiling, x.dtype)
            fp8 = kind in FP8_KINDS
            return gemm.fused_fp8(x, *weights, None, tiling) if fp8 else gemm.fused(x, *weights, None, kind, tiling)

        for tiling in self.candidates:
            if self.over() or not sensible(tiling, m) or (kind, tiling) in self.broken:
                continue
            is_stream = isinstance(tiling, Stream)
            rounds_x = is_stream and kind in FP8_KINDS
            limit = WORST_TOKENS if rounds_x else worst(kind)
            for split in splits(tiling, rows, columns, m):
                choice = replace(tiling, **{"per_tile" if is_stream else "splits": split})
                try:
                    wrong = error(run(cold[0], choice), wanted)
                    if not wrong < limit:
                        print("WRONG", name, m, kind, choice, wrong)
                        self.broken.add((kind, tiling))
                        break
                    us = graph_us([lambda p=p, c=choice: run(p, c) for p in cold], 3)
                except Exception as problem:
                    print("FAIL", name, m, kind, choice, repr(problem)[:200])
                    self.broken.add((kind, tiling))
                    break
                method = f"{'stream' if is_stream else 'few'}{kind}"
                known = {"error_with_tokens" if rounds_x else "error": wrong}
                self.note(shape=name, m=m, method=method, us=us, **known, tiling=asdict(choice))


@functools.cache
def _engine() -> Any:  # noqa: ANN401  it has no types here
    """vLLM's operators; None without it. Whoever only compiles kernels does not wait for that import."""
    try:
        from vllm import _custom_ops
    except ImportError:
        return None
    return _custom_ops


def _as_vllm(x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    engine = _engine()
    tokens, token_scales = engine.scaled_fp8_quant(x, use_per_token_if_dynamic=True)
    return engine.cutlass_scaled_mm(tokens, weight, token_scales, scales, x.dtype)


def worst(kind: Kind) -> float:
    """How far a product may be from float64."""
    return WORST_BF16 if kind == FP8_BF16 else WORST_ERROR


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("kernels.json"))
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--weights", nargs="+", default=["4", "8"], choices=list(KINDS))
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES))
    parser.add_argument("--m", type=int, nargs="+", default=[*FEW, *MANY])
    parser.add_argument("--sweep", action="store_true", help="time every tile size too, not only the chosen one")
    parser.add_argument("--streams", action="store_true", help="of FP8 sweep nothing but the kernel that streams")
    words = parser.parse_args()
    torch.manual_seed(0)
    sweep = Sweep(words.minutes, words.out, words.sweep)
    kinds = [KINDS[name] for name in words.weights]
    sweep.first, sweep.only_streams = kinds[0], words.streams
    for kind in kinds:
        start = time.monotonic()
        sweep.candidates = sweep.compile(kind) if words.sweep else []
        print(kind, len(sweep.candidates), f"kernels in {time.monotonic() - start:.0f} s", flush=True)
        for name in words.shapes:
            sweep.shape(name, kind, words.m)
            print(name, kind, f"{time.monotonic() - start:.0f} s", flush=True)
            sweep.write()
            torch.cuda.empty_cache()
    table(sweep.found)
    tilings(sweep.found)
    limit = max(map(worst, kinds))
    if wrong := [row for row in sweep.found["rows"] if row.get("error", 0) > limit]:
        sys.exit(f"{len(wrong)} products are further from float64 than {limit}: {wrong[:3]}")


if __name__ == "__main__":
    main()
