"""Where vLLM is: a whole `windlass bench run` of the demo model, stock vLLM beside; prints what came out.

The second call of the same words finds nothing to measure.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = "--dtype float32 --max-model-len 256 --enforce-eager"  # the image has no compiler
WORDS = (
    *("bench", "run", "--matrix", "lookahead=off,on", "concurrency=2"),
    *("temperature=0", "--flags", FLAGS, "--stock", "--stock-flags", FLAGS, "--rounds", "2", "--together"),
    *("--dataset", "demo", "--num-prompts", "8", "--ignore-eos", "--output-len", "12", "--warmup", "2"),
)
VARIABLES = {"WINDLASS_LICENSE_REQUIRED": "false", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}


def ran(words: list[str]) -> str:
    """Standard error of the command, which must succeed."""
    command = [sys.executable, "-m", "windlass.cli.main", *words]
    done = subprocess.run(command, env={**os.environ, **VARIABLES}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit((done.stdout + done.stderr)[-6000:])
    return done.stderr


def left() -> list[str]:
    """Processes of vLLM and of ours but this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "--served-model-name bench" in words or "bench.serving.forks" in words:
            found.append(words)
    return found


def main() -> None:
    """One line of JSON."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        words = [*WORDS, "--model", sys.argv[1], "--output-dir", str(out)]
        first, second = ran(words), ran(words)
        rows = list(csv.DictReader((out / "table.csv").read_text().splitlines()))
        results = [json.loads(path.read_text()) for path in sorted(out.rglob("result.json"))]
        print(
            "RESULT",
            json.dumps(
                {
                    "rows": [(row["server"], row["rounds"], float(row["output_throughput"]) > 0) for row in rows],
                    "accepted": [bool(row["acceptance"]) for row in rows],
                    "tokens": [result["total_output_tokens"] for result in results],
                    "ready": first.count(" is ready after "),
                    "started_again": second.count("starting "),
                    "left": left(),
                    "page": (out / "report.html").read_text().count("<rect"),
                    "commands": (out / "commands.txt").read_text().count("bench serve"),
                }
            ),
        )


if __name__ == "__main__":
    main()
