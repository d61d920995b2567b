"""What the engine's descriptions of its model classes save at a start: with none, and with all of them in the cache.

    PYTHONPATH=server/src:base/src:sizing/src python benchmarks/starts/model_infos.py INFOS --work FOLDER --out FILE

INFOS has the folder `modelinfos`, which `images/model_infos.py INFOS` fills. Servers of a tiny model start at once,
each on its share of processors. One arm has an empty cache of the engine, the other the descriptions copied into it.
Printed are the seconds from a server's process to its readiness.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "quantization"))

import keeper
import serving
import shapes
from beside import ROOT, plugin

ARMS = ("empty", "described")
FLAGS = "--load-format dummy --max-model-len 512 --no-enable-prefix-caching --enforce-eager"
ON_CARD = "--dtype float16 --gpu-memory-utilization 0.05 --kv-cache-memory-bytes 268435456"


def start(name: str, port: int, folder: Path, processors: str, wanted: argparse.Namespace) -> subprocess.Popen[Any]:
    """`windlass run` with an engine's cache of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "cache").mkdir(parents=True)
    if name.startswith("described"):
        shutil.copytree(wanted.infos / "modelinfos", folder / "cache/modelinfos")
    words = ["--model", str(wanted.work / "model"), "--host", "127.0.0.1", "--port", str(port), *FLAGS.split()]
    words += ["--dtype", "float32"] if wanted.cpu else ON_CARD.split()
    paths = (plugin(folder), *(ROOT / f"{one}/src" for one in ("server", "base", "sizing")))
    own = {"PYTHONPATH": ":".join(map(str, (*paths, os.environ.get("PYTHONPATH", ""))))}
    own |= {"VLLM_CACHE_ROOT": str(folder / "cache"), "WINDLASS_FACTS_PORT": str(port + 100), "HF_HUB_OFFLINE": "1"}
    own |= {"WINDLASS_LICENSE_REQUIRED": "false", "VLLM_NO_USAGE_STATS": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    own |= {"VLLM_CPU_KVCACHE_SPACE": "1"} if wanted.cpu else {}
    with (folder / "log").open("wb") as log:
        command = ["taskset", "-c", processors, sys.executable, "-c", serving.PROGRAM, "run", *words]
        return keeper.start(command, stdout=log, stderr=log, env=os.environ | own)


def shares(names: Sequence[str]) -> dict[str, str]:
    """The processors of each server, as `taskset` takes them; servers share where there are fewer processors."""
    own = sorted(os.sched_getaffinity(0))
    size = max(1, len(own) // len(names))
    starts = {name: size * at % len(own) for at, name in enumerate(names)}
    return {name: ",".join(map(str, own[at : at + size])) for name, at in starts.items()}


def measure(wanted: argparse.Namespace) -> list[dict[str, Any]]:
    """All servers at once; the arms take turns in the order of processors."""
    names = [f"{arm}-{turn}" for turn in range(wanted.turns) for arm in (ARMS if turn % 2 == 0 else ARMS[::-1])]
    folders = {name: wanted.work / name for name in names}
    urls = {name: f"http://127.0.0.1:{wanted.first_port + at}" for at, name in enumerate(names)}
    processors = shares(names)
    servers = {
        name: start(name, wanted.first_port + at, folders[name], processors[name], wanted)
        for at, name in enumerate(names)
    }
    try:
        ready = serving.ready_after(urls, servers, wanted.limit_s)
    finally:
        for server in servers.values():
            server.terminate()
        for server in servers.values():
            server.wait()
    return [row(name, ready.get(name), processors[name], folders[name]) for name in names]


def row(name: str, ready_s: float | None, processors: str, folder: Path) -> dict[str, Any]:
    """Of one server; how its log ends where it was not ready."""
    known = len(list((folder / "cache/modelinfos").glob("*.json")))
    failed = {} if ready_s else {"failed": (folder / "log").read_text(errors="replace")[-2000:]}
    return {"server": name, "ready_s": ready_s, "processors": processors, "described_after": known, **failed}


def main() -> None:
    """Turn after turn; the file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("infos", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=2, help="servers of each arm")
    parser.add_argument("--limit-s", type=float, default=90, help="seconds until all servers are ready")
    parser.add_argument("--first-port", type=int, default=18701)
    parser.add_argument("--cpu", action="store_true", help="an engine without a GPU")
    wanted = parser.parse_args()
    wanted.work = wanted.work.resolve()
    shapes.describe(wanted.work / "model", shapes.SMALL)
    rows = measure(wanted)
    wanted.out.write_text(json.dumps(rows, indent=1) + "\n")
    print("\n".join(map(json.dumps, rows)))


if __name__ == "__main__":
    main()
