"""The demo model with each method in a real engine, out of what load_quantized.py printed.

Usage: demo_table.py FOLDER METHOD …     with demo-METHOD.log for each. A method may end with a dot and how it was run:
then it is compared with `none` run so. Ends with 1 when one did not answer as the model was trained to, or, with an
adapter, which changes answers, is far from `none` with it.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks/quantization"))

from tables import markdown

ANSWER = "Join one or more path segments intelligently."
FAR = 0.8  # of log-probability: more than NF4's four bits cost this model
HEADINGS = ("method", "bytes of weights", "mean abs. difference of log-probability", "equal tokens, %", "answer begins")


def read(folder: Path, method: str) -> dict[str, Any]:
    """What one run found; its last words where it found nothing."""
    lines = (folder / f"demo-{method}.log").read_text().splitlines()
    found = [json.loads(line.removeprefix("RESULT ")) for line in lines if line.startswith("RESULT ")]
    return found[0]["runs"][0] if found else {"refused": " ".join(lines[-3:])}


def plain_of(method: str) -> str:
    """`none`, run the same way."""
    return ".".join(("none", *method.split(".")[1:]))


def is_well(cells: tuple[str, ...]) -> bool:
    """Whether a row is as it must be."""
    method, *_, far, _, answer = cells
    return answer == ANSWER or (method.endswith(".adapter") and far != "-" and float(far) < FAR)


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
    rows = [row(method, found[method], found[plain_of(method)]) for method in methods]
    print(markdown(HEADINGS, rows))
    return all(map(is_well, rows))


if __name__ == "__main__":
    sys.exit(not main(Path(sys.argv[1]), *sys.argv[2:]))
