"""Runs inside the serving image: makes smoothquant's file of the demo model, killed once on the way; one line of JSON.

Usage: make_smoothquant.py FOLDER     FOLDER gets a copy of /demo, or of DEMO where that is set, and the file.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE

FILES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
         "chat_template.jinja")  # fmt: skip
TIMEOUT_S = 600


def data(folder: Path) -> Path:
    """Questions of the kind that the demo model was trained on."""
    names = [
        "os.path.join",
        "json.dumps",
        "re.sub",
        "sys.exit",
        "math.sqrt",
        "random.choice",
        "time.sleep",
        "io.StringIO",
    ]
    asked = ("What does {} do?", "Please explain {} briefly.", "I need to know what {} is.", "import {}\nprint({})")
    rows = [{"messages": [{"role": "user", "content": text.format(name, name)}]} for name in names for text in asked]
    file = folder / "samples.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def started(model: Path, samples: Path) -> subprocess.Popen[str]:
    """The command itself."""
    program = "from windlass.cli.main import main; main()"
    words = ["quantize", "smoothquant", str(model), "--data", str(samples), "--samples", "32"]
    return subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True)


def table(printed: str) -> dict[str, dict[str, float]]:
    """The errors of each group, out of the command's table."""
    rows = [line.split() for line in printed.splitlines() if line[:1].isdigit()]
    return {f"{row[0]} {row[1]}": {"plain": float(row[-2]), "error": float(row[-1])} for row in rows}


def marks(parts: Path) -> dict[str, int]:
    """Finished layers and when they were written."""
    found = {}
    for file in parts.glob("layer-*.json"):
        with contextlib.suppress(FileNotFoundError):
            found[file.name] = file.stat().st_mtime_ns
    return found


def main(folder: str) -> dict[str, object]:
    """Start, kill when some layers are done, start again."""
    model = Path(folder)
    for name in FILES:
        shutil.copy(Path(os.environ.get("DEMO", "/demo"), name), model)
    samples, parts = data(model), (model / SMOOTHQUANT_FILE).with_suffix(".parts")
    first, deadline = started(model, samples), time.monotonic() + TIMEOUT_S
    while len(marks(parts)) < 2 and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)  # clock: how often the folder is read
    first.send_signal(signal.SIGKILL)
    killed, before = first.wait(), marks(parts)
    second = started(model, samples)
    unchanged = True
    while second.poll() is None:  # the parts go when the file is whole
        now = marks(parts)
        unchanged = unchanged and all(now[name] == when for name, when in before.items() if name in now)
        time.sleep(0.005)  # clock: how often the folder is read
    printed, _ = second.communicate()
    assert second.returncode == 0, second.returncode
    assert (model / SMOOTHQUANT_FILE).is_file()
    return {"killed": killed, "kept_after_kill": sorted(before), "kept_unchanged": unchanged, "groups": table(printed)}


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(*sys.argv[1:])))
