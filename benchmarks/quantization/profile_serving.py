"""On a GPU: where one second of serving ten clients goes. Decode steps, steps that read a prompt, gaps between steps.

    PYTHONPATH=server/src:base/src:sizing/src python benchmarks/quantization/profile_serving.py --work FOLDER \
        --out OUT.json [--methods none fp8]
    python benchmarks/quantization/profile_serving.py --plot OUT.json PICTURE.png

The load is that of `serving.py`. `windlass run` closes the profiler's paths, so the server is the engine's own command
with our plug-in and the graphs that `windlass run` asks for. The engine's profiler marks each step. A step's time on
the card is that of its kernels; a gap is time in which no kernel runs. Recording makes the host slower, so gaps are
upper bounds. The sum of gaps is also taken with kernels recorded alone, which costs less. --small runs on a CPU with a
tiny shape: it tests the program and measures nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import re
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import serving
import shapes
from beside import ROOT, plugin
from serving import Answer, keeper

METHODS = ("none", "fp8", "ifq", "ifq_nf4")
TOGETHER = 2
"""Methods whose servers run beside one another: those of all four need more than a card of 80 GB."""
KINDS = ("decode", "prompt")
STEP = re.compile(r"execute_context_(\d+)\((\d+)\)_generation_(\d+)\((\d+)\)")
RECORDED = {"steps": ["CPU", "CUDA"], "kernels": ["CUDA"]}
KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
"""Kinds of events on a card."""
OPERATORS = ("cpu_op",)
"""What `--small` counts in their place."""
SHARED = ("--gpu-memory-utilization", "0.05", "--kv-cache-memory-bytes", str(2 * 2**30))
WARM_S, SECONDS = 8.0, 1.0
TOP = 14
"""Kernels by name that are kept of each kind of step."""
Span = tuple[float, float]


def command(method: str, port: int, recorded: str, wanted: argparse.Namespace) -> list[str]:
    """The engine's own server, with a profiler."""
    from windlass.launch import graphs
    from windlass.launch.quantize import METHOD, engine_value

    profiler = {
        "profiler": "torch", "torch_profiler_dir": str(folder(method, recorded, wanted)),
        "torch_profiler_activities": ["CPU"] if wanted.small else RECORDED[recorded],
        "torch_profiler_with_stack": False, "torch_profiler_dump_cuda_time_total": False, "ignore_frontend": True,
    }  # fmt: skip
    words = ["--served-model-name", serving.MODEL, "--host", "127.0.0.1", "--port", str(port), "--load-format", "dummy"]
    words += ["--dtype", "float16", "--max-model-len", "4096", "--no-enable-prefix-caching", "--skip-tokenizer-init"]
    words += ["--enforce-eager"] if wanted.small else [*SHARED, graphs.FLAG, str(graphs.TOKENS)]
    words += ["--profiler-config", json.dumps(profiler)]
    if method != "none":
        words += ["--quantization", str(engine_value(METHOD, method))]
    return [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(wanted.work / "model"), *words]


def shape(*, small: bool) -> dict[str, Any]:
    """Of the model."""
    found: dict[str, Any] = shapes.SMALL if small else shapes.QWEN2_7B
    return found


def folder(method: str, recorded: str, wanted: argparse.Namespace) -> Path:
    """Of one server's traces."""
    return Path(wanted.work, "traces", f"{method}-{recorded}")


def start(method: str, port: int, recorded: str, wanted: argparse.Namespace) -> Any:  # noqa: ANN401
    """One server; what it writes goes into a file of the work folder."""
    folder(method, recorded, wanted).mkdir(parents=True, exist_ok=True)
    paths = (plugin(wanted.work), *(ROOT / f"{one}/src" for one in ("server", "base", "sizing")))
    path = ":".join(map(str, (*paths, os.environ.get("PYTHONPATH", ""))))
    own = {"PYTHONPATH": path, "VLLM_CACHE_ROOT": str(wanted.work / f"cache-{method}"), "VLLM_NO_USAGE_STATS": "1"}
    own |= {"VLLM_CPU_KVCACHE_SPACE": "1"} if wanted.small else {}
    own |= {"VLLM_USE_FLASHINFER_SAMPLER": "0", "XDG_CACHE_HOME": str(wanted.work / f"home-{method}")}
    log = (wanted.work / f"{method}-{recorded}.log").open("wb")
    return keeper.start(command(method, port, recorded, wanted), stdout=log, stderr=log, env=os.environ | own)


def record(url: str, seed: int, *, small: bool) -> None:
    """Ten clients; after some seconds one is recorded."""
    vocabulary = shape(small=small)["vocab_size"]

    def profile() -> None:
        time.sleep(WARM_S)
        httpx.post(f"{url}/start_profile", timeout=60).raise_for_status()
        time.sleep(SECONDS)
        httpx.post(f"{url}/stop_profile", timeout=120).raise_for_status()

    chance = random.Random(seed)  # noqa: S311 - draws a load, no secret
    tokens_in = serving.lengths(70, serving.MEAN_IN, serving.SPREAD_IN, 2000, chance)
    tokens_out = serving.lengths(70, serving.MEAN_OUT, serving.SPREAD_OUT, 2000, chance)
    asyncio.run(serving.load(url, [Answer(20, 8) for _ in range(20)], vocabulary, seed + 1))
    watching = threading.Thread(target=profile)
    watching.start()
    asyncio.run(
        serving.load(url, [Answer(*pair) for pair in zip(tokens_in, tokens_out, strict=True)], vocabulary, seed)
    )
    watching.join()


def events(method: str, recorded: str, wanted: argparse.Namespace) -> list[dict[str, Any]]:
    """Of the one trace of a folder."""
    path = next(folder(method, recorded, wanted).glob("*.json.gz"))
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    kinds = KERNELS if not wanted.small else OPERATORS
    others = ("cuda_runtime", "cuda_driver", "user_annotation")
    return [
        {**one, "cat": KERNELS[0] if one["cat"] in kinds else one["cat"]}
        for one in found
        if one.get("ph") == "X" and one.get("cat") in (*kinds, *others)
    ]


def busy(spans: list[Span]) -> float:
    """Microseconds in which any of them runs."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def span(one: dict[str, Any]) -> Span:
    """An event's begin and end, microseconds."""
    return float(one["ts"]), float(one["ts"]) + float(one["dur"])


def launches(found: list[dict[str, Any]]) -> dict[int, float]:
    """When the host called for each kernel, by correlation."""
    return {
        one["args"]["correlation"]: float(one["ts"])
        for one in found
        if one.get("cat") in {"cuda_runtime", "cuda_driver"} and "correlation" in one.get("args", {})
    }


def steps(found: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Kind, name and kernels of each step: a kernel belongs to the step that the host had begun last."""
    marks = sorted((float(one["ts"]), one["name"]) for one in found
                   if one.get("cat") == "user_annotation" and STEP.match(one["name"]))  # fmt: skip
    called, kernels = launches(found), [one for one in found if one["cat"] == KERNELS[0]]
    began = [called.get(one.get("args", {}).get("correlation"), float(one["ts"])) for one in kernels]
    order = sorted(range(len(kernels)), key=began.__getitem__)
    at = 0
    for number, (begin, name) in enumerate(marks[:-1]):
        end, own = marks[number + 1][0], []
        while at < len(order) and began[order[at]] < end:
            if began[order[at]] >= begin:
                own.append(kernels[order[at]])
            at += 1
        parts = STEP.match(name)
        if parts is None or not own or not int(parts[1]) + int(parts[3]):
            continue
        yield ("prompt" if int(parts[1]) else "decode"), name, own


def described(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Of a trace with steps: milliseconds by kind, their kernels, and the gaps."""
    by_kind: dict[str, list[tuple[float, float, str]]] = {kind: [] for kind in KINDS}
    names: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for kind, name, kernels in steps(found):
        spans = [span(one) for one in kernels]
        whole = max(end for _, end in spans) - min(begin for begin, _ in spans)
        by_kind[kind].append((busy(spans) / 1e3, whole / 1e3, name))
        for one in kernels:
            names[kind][one["name"][:90]] += float(one["dur"]) / 1e3
    row: dict[str, Any] = {"all": whole_of(found)}
    for kind, rows in by_kind.items():
        if not rows:
            continue
        row[kind] = {
            "steps": len(rows), "busy_ms": round(sum(one for one, *_ in rows), 2),
            "busy_ms_median": round(statistics.median(one for one, *_ in rows), 3),
            "whole_ms_median": round(statistics.median(one for _, one, _ in rows), 3),
            "kernels_ms": {name: round(ms / len(rows), 4) for name, ms in names[kind].most_common(TOP)},
            "each": [(round(one, 3), round(two, 3), name) for one, two, name in rows] if kind == "prompt" else [],
        }  # fmt: skip
    return row


def whole_of(found: list[dict[str, Any]]) -> dict[str, float]:
    """Milliseconds from the first kernel to the end of the last, and those without any."""
    spans = [span(one) for one in found if one.get("cat") == KERNELS[0]]
    wall = max(end for _, end in spans) - min(begin for begin, _ in spans)
    return {"wall_ms": round(wall / 1e3, 2), "idle_ms": round((wall - busy(spans)) / 1e3, 2), "kernels": len(spans)}


def cause(log: str) -> str:
    """The errors that ended the engine; later ones are of processes that waited for it."""
    lines = [line for line in log.splitlines() if "ERROR" in line and re.search(r"\b\w*(Error|Exception)\b: ", line)]
    return "\n".join(lines[:3])[:1500] or log[-1500:]


def measure(wanted: argparse.Namespace) -> None:
    """Two methods at a time, whose four servers fit on a card of 80 GB."""
    shapes.describe(wanted.work / "model", shape(small=wanted.small))
    results: dict[str, Any] = {}
    for at in range(0, len(wanted.methods), TOGETHER):
        measure_together(wanted.methods[at : at + TOGETHER], results, wanted)


def measure_together(methods: Sequence[str], results: dict[str, Any], wanted: argparse.Namespace) -> None:
    """Start their servers, record one after the other."""
    arms = [(method, recorded) for method in methods for recorded in RECORDED]
    servers = {arm: start(arm[0], serving.FIRST_PORT + at, arm[1], wanted) for at, arm in enumerate(arms)}
    deadline = time.monotonic() + wanted.limit_s
    urls = {arm: f"http://127.0.0.1:{serving.FIRST_PORT + at}" for at, arm in enumerate(arms)}
    try:
        ready = {arm: serving.wait(urls[arm], servers[arm], deadline) for arm in arms}
        for method, recorded in arms:
            name = f"{method} {recorded}"
            if ready[method, recorded]:
                record(urls[method, recorded], 9, small=wanted.small)
                found = events(method, recorded, wanted)
                results[name] = described(found) if recorded == "steps" else whole_of(found)
            else:
                results[name] = {"failed": cause(Path(wanted.work, f"{method}-{recorded}.log").read_text())}
            wanted.out.write_text(json.dumps(results))
            print(name, json.dumps(results[name])[:600], flush=True)
    finally:
        for server in servers.values():
            server.terminate()
        for server in servers.values():
            serving.end(server)


def plot(results: dict[str, Any], picture: Path) -> None:
    """A bar a method: milliseconds of one second."""
    from matplotlib import pyplot

    methods = [
        name.removesuffix(" steps") for name, row in results.items() if name.endswith(" steps") and "failed" not in row
    ]
    _, axes = pyplot.subplots(figsize=(9, 0.7 * len(methods) + 1.6))
    left = [0.0] * len(methods)
    parts = {"decode steps": "decode", "steps that read a prompt": "prompt", "no kernel runs": "idle"}
    for name, key in parts.items():
        rows = [results[f"{method} steps"] for method in methods]
        walls = [row["all"]["wall_ms"] for row in rows]
        ms = [row["all"]["idle_ms"] if key == "idle" else row.get(key, {}).get("busy_ms", 0.0) for row in rows]
        share = [1000 * one / wall for one, wall in zip(ms, walls, strict=True)]
        axes.barh(methods, share, left=left, label=name)
        left = [before + one for before, one in zip(left, share, strict=True)]
    axes.set_xlabel("milliseconds of one second")
    axes.invert_yaxis()
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    pyplot.tight_layout()
    pyplot.savefig(picture, dpi=110)


def main() -> None:
    """Measure, or plot what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder for the model, caches, logs and traces")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--limit-s", type=float, default=240, help="seconds until the servers of two methods are ready")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--plot", nargs=2, type=Path, metavar=("OUT.json", "PICTURE.png"))
    wanted = parser.parse_args()
    if wanted.plot:
        plot(json.loads(wanted.plot[0].read_text()), wanted.plot[1])
        return
    if not (wanted.work and wanted.out):
        parser.error("--work and --out are missing")
    wanted.work = wanted.work.resolve()
    measure(wanted)


if __name__ == "__main__":
    main()
