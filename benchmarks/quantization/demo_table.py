"""The demo model with each method in a real engine, out of what load_quantized.py printed.

Usage: demo_table.py FOLDER METHOD …     with demo-METHOD.log for each, `none` the first. Ends with 1 when one did not
answer as the model was trained to.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from tables import markdown

ANSWER = "Join one or more path segments intelligently."
HEADINGS = ("method", "bytes of weights", "mean abs. difference of log-probability", "equal tokens, %", "answer begins")


def read(folder: Path, method: str) -> dict[str, Any]:
    """What one run found; its last words where it found nothing."""
    lines = (folder / f"demo-{method}.log").read_text().splitlines()
    found = [json.loads(line.removeprefix("RESULT ")) for line in lines if line.startswith("RESULT ")]
    return found[0]["runs"][0] if found else {"refused": " ".join(lines[-3:])}


def row(method: str, found: dict[str, Any], plain: dict[str, Any]) -> tuple[str, ...]:
    """Of a method, against none."""
    if "refused" in found or "refused" in plain:
        return method, "-", "-", "-", str(found.get("refused", ""))[:200]
    far = statistics.fmean(abs(a - b) for a, b in zip(found["logprobs"], plain["logprobs"], strict=True))
    texts = zip(found["tokens"], plain["tokens"], strict=True)
    equal = 100 * statistics.fmean(a == b for one, other in texts for a, b in zip(one, other, strict=True))
    return method, f"{found['bytes']:,}", f"{far:.4f}", f"{equal:.0f}", found["answer"][: len(ANSWER)]


def main(folder: Path, *methods: str) -> bool:
    """Print the table; whether all is well."""
    found = {method: read(folder, method) for method in methods}
    rows = [row(method, found[method], found["none"]) for method in methods]
    print(markdown(HEADINGS, rows))
    return all(cells[-1] == ANSWER for cells in rows)


if __name__ == "__main__":
    sys.exit(not main(Path(sys.argv[1]), *sys.argv[2:]))
