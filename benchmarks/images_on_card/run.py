"""Runs one part on the card and writes its rows as JSON after each: `features`, `presets` or `planned`.

    python3 benchmarks/images_on_card/run.py PART --work /tmp/card --image server.env.json --out rows.json

Ends with 1 when a row did not do what it must. No row is begun that could not end before --limit-s.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import planned as plans
import servers
from licensing import license_server
from rows import ADAPTED, DEMO, FEATURES, LONG, PLANNED, PRESETS, QWEN, REFUSED, TOKENS, Row

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks/quantization")]
import shapes  # noqa: E402 - beside other benchmarks

TOKENIZER = "tokenizer.json tokenizer_config.json chat_template.jinja"
FILES = f"config.json generation_config.json model.safetensors {TOKENIZER}"
DEMO_WORDS = 6144  # the vocabulary of the demo model's tokenizer
NOWHERE = "http://127.0.0.1:9"
Report = Callable[[dict[str, object]], None]


def card() -> tuple[str, int, int]:
    """The name of the card that this process sees first, its memory and what of it is in use, in MiB; or a CPU."""
    if not shutil.which("nvidia-smi"):
        return "CPU", 81559, 0
    mine = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    words = ["nvidia-smi", "-i", mine, "--query-gpu=name,memory.total,memory.used", "--format=csv,noheader,nounits"]
    name, total, used = (
        subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\n")[0].split(", ")
    )
    return name, int(total), int(used)


def _cards() -> int:
    if not shutil.which("nvidia-smi"):
        return 0
    if mine := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return len(mine.split(","))
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.count("UUID: GPU-")


def make_models(folder: Path, *, random: bool, small: bool) -> None:
    """The demo model in three shapes, and random weights of Qwen2-7B's shape where they are asked for."""
    for name in (DEMO, LONG, ADAPTED):
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        for file in FILES.split():
            shutil.copy(ROOT / "models/demo" / file, target)
    config = json.loads((folder / LONG / "config.json").read_text())
    (folder / LONG / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 32768}))
    if not (folder / ADAPTED / "lora/poet").exists():
        words = [sys.executable, ROOT / "models/tiny/make.py", folder / "made", "lora", "--base", ROOT / "models/demo"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(folder / "made/lora", folder / ADAPTED / "lora/poet")
    if random and not (folder / QWEN / "chat_template.jinja").exists():
        shape = shapes.SMALL | {"vocab_size": DEMO_WORDS} if small else shapes.QWEN2_7B
        shapes.describe(folder / QWEN, shape)
        shapes.fill(folder / QWEN, shape, "cpu" if small else "cuda")
        for file in TOKENIZER.split():  # a smaller vocabulary than the model's: what it lacks has no text
            shutil.copy(ROOT / "models/demo" / file, folder / QWEN)


def features(wanted: argparse.Namespace, report: Report) -> None:
    """Several rows at once, each asked when it answers."""
    rows = [row for row in FEATURES if not wanted.only or row.name in wanted.only]
    with license_server(wanted.work, ROOT) as address:
        for first in range(0, len(rows), wanted.beside):
            _together(rows[first : first + wanted.beside], wanted, address, report)


def _together(rows: list[Row], wanted: argparse.Namespace, address: str, report: Report) -> None:
    running = []
    for number, row in enumerate(rows):
        where = NOWHERE if REFUSED in row.asks else address
        running.append(servers.start(row, number, wanted.work, {**wanted.variables, "WINDLASS_LS_ADDR": where}))
    try:
        for server in running:
            report(_asked(server, wanted))
    finally:
        for server in running:
            server.process.terminate()
        for server in running:
            servers.end(server)


def _asked(server: servers.Server, wanted: argparse.Namespace) -> dict[str, object]:
    if REFUSED in server.row.asks:
        return {"row": server.row.name, **servers.refused(server)}
    ready_s = servers.wait(server, min(server.begun + wanted.start_s, wanted.deadline))
    if ready_s is None:
        return {"row": server.row.name, "failed": server.log_end}
    return {"row": server.row.name, "ready_s": ready_s, **servers.ask(server)}


def one(row: Row, wanted: argparse.Namespace, words: tuple[str, ...] = ()) -> dict[str, object]:
    """One row with the card its own."""
    before = card()[2]
    server = servers.start(row, 0, wanted.work, wanted.variables, words)
    try:
        found = _asked(server, wanted) | {"card_gib": round((card()[2] - before) / 1024, 2)}
    finally:
        end_s = servers.end(server)
    return found | {"end_s": end_s}


def presets(wanted: argparse.Namespace, report: Report) -> None:
    """One after the other; where there is one card, two ranks become one and the row says so."""
    for row in _in_time(PRESETS, wanted):
        words = tuple(row.line.replace("-tp 2", "-tp 1").split()) if wanted.cards < 2 else ()
        found = one(row, wanted, words if row.name == "native" else ())
        report(found | ({"note": "-tp 1 in the place of -tp 2: one card"} if words and row.name == "native" else {}))


def planned(wanted: argparse.Namespace, report: Report) -> None:
    """What the operator plans for this card, started twice, and its memory beside the plan's."""
    name, memory_mib, _ = card()
    product = wanted.product or name
    for title, engine in _in_time(PLANNED, wanted):
        plan = plans.planned(wanted.work / "models" / QWEN, engine, product, memory_mib)
        words = (*plan.words, *wanted.more)
        first = one(Row(title, "", QWEN, (TOKENS,)), wanted, words)
        second = one(Row(f"{title} again", "", QWEN, (TOKENS,)), wanted, words) if "failed" not in first else {}
        figures = {"weights": plan.weights_gib, "cache": plan.cache_gib, "share": plan.card_gib * plan.utilization}
        rounded = {key: round(value, 2) for key, value in figures.items()}
        report(
            {"planned_gib": rounded, "command": " ".join(plan.words), **first, "second_ready_s": second.get("ready_s")}
        )


def _in_time(rows: tuple, wanted: argparse.Namespace):  # noqa: ANN202 - a generator of what it is given
    for row in rows:
        if wanted.only and (row.name if isinstance(row, Row) else row[0]) not in wanted.only:
            continue
        if time.monotonic() + wanted.reserve_s > wanted.deadline:
            print(f"left out, no time: {row}", flush=True)
            continue
        yield row


def is_good(row: dict[str, object]) -> bool:
    """Whether every ask of the row was answered as it must be."""
    asks = row.get("asks")
    return isinstance(asks, dict) and bool(asks) and all(found.get("ok") for found in asks.values())


def main() -> int:
    """Run the part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["features", "presets", "planned"])
    parser.add_argument("--work", type=Path, required=True, help="folder for models and logs")
    parser.add_argument("--image", type=Path, required=True, help="the image's variables as JSON")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit-s", type=float, default=560)
    parser.add_argument("--reserve-s", type=float, default=60, help="seconds that a row is not begun without")
    parser.add_argument("--only", nargs="*", default=[], help="names of rows")
    parser.add_argument("--beside", type=int, default=7, help="servers at once")
    parser.add_argument("--start-s", type=float, default=240, help="seconds that a start may take")
    parser.add_argument("--small", action="store_true", help="a small shape for a machine without a GPU")
    parser.add_argument("--product", default="", help="plan for this card")
    parser.add_argument("--more", nargs="*", default=[], help="more words for planned commands")
    wanted = parser.parse_args()
    wanted.deadline = time.monotonic() + wanted.limit_s
    wanted.variables = servers.load_image(wanted.image)
    wanted.cards = _cards()
    wanted.work.mkdir(parents=True, exist_ok=True)
    make_models(wanted.work / "models", random=wanted.part == "planned", small=wanted.small)
    rows: list[dict[str, object]] = []

    def report(row: dict[str, object]) -> None:
        rows.append(row)
        print(
            f"{row.get('row')}: {'ok' if is_good(row) else json.dumps(row)[:1500]} {row.get('ready_s')} s", flush=True
        )
        wanted.out.write_text(json.dumps({"card": card()[0], "rows": rows}, indent=1) + "\n")

    {"features": features, "presets": presets, "planned": planned}[wanted.part](wanted, report)
    return 0 if rows and all(map(is_good, rows)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
