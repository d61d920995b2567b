"""Times the fused NF4 and INT8 products against float16 and, where vLLM can be imported, Marlin. Needs a GPU.

Every figure is microseconds of one product: the median of replays of a CUDA graph that walks over copies of the
weights, together larger than the L2 cache. Every kernel is first compared with a float64 product of the dequantized
weights. Usage:

    PYTHONPATH=server/src python benchmarks/quantization/kernels.py --out result.json --minutes 4
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from candidates import few, sensible, splits, wide
from tables import table
from timing import copies, error, graph_us, issue_us
from windlass.quantization import int8, nf4, packing
from windlass.quantization.kernels import gemm, nvrtc
from windlass.quantization.kernels.tiling import Few, Tiling
from windlass.quantization.layout import Packed
from windlass.quantization.product import by_float16, product

SHAPES = {  # of Qwen2-7B, rows (outputs) and columns (inputs)
    "qkv": (4608, 3584),
    "o": (3584, 3584),
    "gate_up": (37888, 3584),
    "down": (3584, 18944),
    "lm_head": (152064, 3584),
}
FEW = [1, 2, 4, 8, 10, 16, 24, 32, 48, 64, 96, 128]
MANY = [192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192]
WORST_ERROR = 1e-3  # of the product, relative in the Frobenius norm: float16 rounding of the output is 2e-4


def quantized(weight: torch.Tensor, bits: int) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Packed weights and scales, and the float64 matrix that they stand for."""
    if bits == 4:
        codes, blocks = nf4.quantize(weight)
        return (packing.pack_nf4(codes), packing.pack_nf4_scales(blocks)), nf4.dequantize(codes, blocks).double()
    values, scales = int8.quantize(weight)
    return (packing.pack_int8(values), scales), values.double() * scales.double().unsqueeze(1)


def compiled(kernel: tuple[tuple[str, ...], str, tuple[str, ...]]) -> str:
    """Put a kernel into the cache folder; return what went wrong."""
    try:
        nvrtc.cubin(*kernel)
    except nvrtc.KernelError as problem:
        return str(problem)[:300]
    return ""


class Sweep:
    """The figures of one run; ends quietly when its time is over."""

    def __init__(self, minutes: float, out: Path, sweeping: bool, slices: list[int]) -> None:
        self.deadline, self.out, self.sweeping = time.monotonic() + 60 * minutes, out, sweeping
        self.found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
        self.slices = slices
        self.architecture = nvrtc.architecture(0)
        self.candidates: list[Tiling] = []
        self.broken: set[tuple[int, Tiling]] = set()

    def over(self) -> bool:
        """Whether the time of this run is spent."""
        return time.monotonic() > self.deadline

    def note(self, **row: object) -> None:
        """Keep a figure."""
        self.found["rows"].append(row)

    def write(self) -> None:
        """Write what was found so far."""
        self.out.write_text(json.dumps(self.found, indent=0))

    def compile(self, bits: int) -> list[Tiling]:
        """Compile every tiling on all cores; return those that compiled."""
        wanted: list[Tiling] = [*few(bits), *(wide() if self.architecture == "sm_90a" else ())]
        with ProcessPoolExecutor(min(14, os.cpu_count() or 1), multiprocessing.get_context("spawn")) as pool:
            made = list(
                pool.map(compiled, [(tiling.files, self.architecture, tiling.macros(bits)) for tiling in wanted])
            )
        for tiling, problem in zip(wanted, made, strict=True):
            if problem:
                print("compile", bits, tiling, problem)
        return [tiling for tiling, problem in zip(wanted, made, strict=True) if not problem]

    def shape(self, name: str, bits: int, rounds: list[int]) -> None:
        """Time one shape: float16, dequantizing first, the chosen tiles and, in a sweep, all of them."""
        rows, columns = SHAPES[name]
        weight = (torch.randn(rows, columns, device="cuda") * 0.02).half()
        packed, exact = quantized(weight, bits)
        if error(gemm.dequantized(*packed, bits), exact) > WORST_ERROR:
            print("WRONG dequantize", name, bits, error(gemm.dequantized(*packed, bits), exact))
        cold = copies(packed)
        whole = copies((weight,))
        for m in rounds:
            if self.over():
                return
            x = torch.randn(m, columns, device="cuda").half()
            wanted = x.double() @ exact.T
            if bits == 4:
                us = graph_us([lambda x=x, w=w: torch.nn.functional.linear(x, w[0]) for w in whole])
                self.note(shape=name, m=m, method="fp16", us=us)
            if m >= 64 and rows < 100000:
                calls = [lambda x=x, p=p: torch.nn.functional.linear(x, gemm.dequantized(*p, bits)) for p in cold[:4]]
                self.note(
                    shape=name, m=m, method=f"dequantize{bits}", us=graph_us(calls), error=error(calls[0](), wanted)
                )
            calls = [lambda x=x, p=p: product(x, *p, None, bits, rows) for p in cold]
            self.note(shape=name, m=m, method=f"chosen{bits}", us=graph_us(calls), error=error(calls[0](), wanted))
            self.note(shape=name, m=m, method=f"host{bits}", us=issue_us(calls[0]))
            if self.slices and m >= 512 and rows < 100000:
                self.sliced(name, bits, (x, wanted), cold)
            if self.sweeping:
                self.tilings(name, bits, (x, wanted), cold)
        del exact, cold, whole

    def sliced(self, name: str, bits: int, product_: tuple[torch.Tensor, torch.Tensor], cold: list[Any]) -> None:
        """Time W made float16 in slices that stay in the L2 cache, of several sizes."""
        x, wanted = product_
        for mib in self.slices:
            size = mib * 2**20
            calls = [lambda x=x, p=p, s=size: by_float16(x, Packed(*p), None, bits, s) for p in cold[:4]]
            us, wrong = graph_us(calls), error(calls[0](), wanted)
            self.note(shape=name, m=len(x), method=f"sliced{bits}/{mib}", us=us, error=wrong)

    def tilings(self, name: str, bits: int, product_: tuple[torch.Tensor, torch.Tensor], cold: list[Any]) -> None:
        """Time every sensible tile size; `product_` is x and the exact result."""
        rows, columns = SHAPES[name]
        x, wanted = product_
        m = len(x)
        for tiling in self.candidates:
            if self.over() or not sensible(tiling, m) or (bits, tiling) in self.broken:
                continue
            for split in splits(tiling, rows, columns, m):
                choice = replace(tiling, splits=split)
                try:
                    wrong = error(gemm.fused(x, *cold[0], None, bits, choice), wanted)
                    if not wrong < WORST_ERROR:
                        print("WRONG", name, m, bits, choice, wrong)
                        self.broken.add((bits, tiling))
                        break
                    us = graph_us([lambda p=p, c=choice: gemm.fused(x, *p, None, bits, c) for p in cold], 3)
                except Exception as problem:
                    print("FAIL", name, m, bits, choice, repr(problem)[:200])
                    self.broken.add((bits, tiling))
                    break
                method = f"{'few' if isinstance(choice, Few) else 'wide'}{bits}"
                self.note(shape=name, m=m, method=method, us=us, error=wrong, tiling=asdict(choice))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("kernels.json"))
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--bits", type=int, nargs="+", default=[4, 8], choices=[4, 8])
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES))
    parser.add_argument("--m", type=int, nargs="+", default=[*FEW, *MANY])
    parser.add_argument("--slices", type=int, nargs="*", default=[], metavar="MIB", help="of float16 made at once")
    parser.add_argument("--sweep", action="store_true", help="time every tile size too, not only the chosen one")
    words = parser.parse_args()
    torch.manual_seed(0)
    sweep = Sweep(words.minutes, words.out, words.sweep, words.slices)
    for bits in words.bits:
        start = time.monotonic()
        sweep.candidates = sweep.compile(bits) if words.sweep else []
        print(bits, "bits:", len(sweep.candidates), f"kernels in {time.monotonic() - start:.0f} s", flush=True)
        for name in words.shapes:
            sweep.shape(name, bits, words.m)
            print(name, bits, f"{time.monotonic() - start:.0f} s", flush=True)
            sweep.write()
            torch.cuda.empty_cache()
    table(sweep.found)
    if wrong := [row for row in sweep.found["rows"] if row.get("error", 0) > WORST_ERROR]:
        sys.exit(f"{len(wrong)} products are further from float64 than {WORST_ERROR}: {wrong[:3]}")


if __name__ == "__main__":
    main()
