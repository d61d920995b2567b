"""What each method costs in precision, on a trained model: perplexity, KL divergence and top-1 agreement.

    export PYTHONPATH=server/src:lib/base/src:lib/sizing/src
    python benchmarks/quantization/precision.py MODEL --data held_out.jsonl \
        [--smoothquant FILE] [--gptq DIRECTORY] [--out FILE]

Everything is computed in float32 on a CPU: weights as each method's quantizer leaves them, activations as it rounds
them, so that a figure holds for the method and not for a kernel. `float16` (weights rounded to it) is what the others
are compared with. GPTQ's directory is what `windlass quantize gptq` wrote, smoothquant's file what `windlass quantize
smoothquant` did. Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from methods_exact import METHODS, smoothquant, with_weights
from tables import markdown
from transformers import AutoModelForCausalLM, AutoTokenizer
from windlass.engine.quantization.codebook import NF4

Module = torch.nn.Module
HEADINGS = ("method", "bytes of linear layers", "perplexity", "mean KL, nats", "largest KL", "top-1 agreement, %")


def windows(data: Path, tokenizer: Callable[..., Mapping[str, list[int]]], length: int, count: int) -> torch.Tensor:
    """Token windows [count, length], drawn evenly from all texts."""
    texts = [json.loads(line)["text"] for line in data.read_text().splitlines()]
    tokens = [token for text in texts for token in tokenizer(text)["input_ids"]]
    whole = torch.tensor(tokens[: len(tokens) // length * length]).view(-1, length)
    return whole[torch.linspace(0, len(whole) - 1, min(count, len(whole))).long()]


@torch.no_grad()
def log_probabilities(model: Module, window: torch.Tensor) -> torch.Tensor:
    """Of every next token [length - 1, vocabulary], float32."""
    return model(window[None]).logits[0, :-1].float().log_softmax(-1)


def figures(model: Module, wanted: list[torch.Tensor], read: torch.Tensor) -> dict[str, float]:
    """Perplexity of a model, and how far it is from the base, whose log-probabilities are `wanted`."""
    nats, divergence, largest, agreed, count = 0.0, 0.0, 0.0, 0, 0
    for window, base in zip(read, wanted, strict=True):
        found = log_probabilities(model, window)
        each = (base.exp() * (base - found)).sum(-1)
        nats -= float(found.gather(1, window[1:, None]).sum())
        divergence += float(each.sum())
        largest = max(largest, float(each.max()))
        agreed += int((found.argmax(-1) == base.argmax(-1)).sum())
        count += len(each)
    return {
        "perplexity": round(math.exp(nats / count), 4),
        "kl_mean": divergence / count,
        "kl_max": largest,
        "top1_percent": round(100 * agreed / count, 2),
    }


def measure(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """One row for each method, the base first."""
    read = windows(arguments.data, AutoTokenizer.from_pretrained(arguments.model), arguments.length, arguments.windows)
    base = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float16).float().eval()
    wanted = [log_probabilities(base, window) for window in read]
    makers = dict(METHODS)
    if arguments.smoothquant:
        makers["smoothquant"] = lambda model: smoothquant(model, arguments.smoothquant)
    if arguments.gptq:
        makers["GPTQ 4-bit, groups of 128"] = lambda model: with_weights(model, arguments.gptq)
    rows = []
    chosen = {name: make for name, make in makers.items() if not arguments.only or name in arguments.only}
    for name, make in chosen.items():
        model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float16).float().eval()
        size = make(model)
        rows.append({"method": name, "bytes": size, **figures(model, wanted, read)})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Measure, print the table, write JSON and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--smoothquant", type=Path)
    parser.add_argument("--gptq", type=Path)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--windows", type=int, default=64)
    parser.add_argument("--only", nargs="+", metavar="METHOD", help="as the table names them (default: all)")
    parser.add_argument("--out", type=Path, help="FILE.json; FILE.md is written beside it")
    arguments = parser.parse_args()
    rows = measure(arguments)
    cells = [
        (row["method"], f"{row['bytes']:,}", f"{row['perplexity']:.4f}", f"{row['kl_mean']:.2e}",
         f"{row['kl_max']:.2e}", f"{row['top1_percent']:.2f}") for row in rows
    ]  # fmt: skip
    table = markdown(HEADINGS, cells)
    print(table)
    if arguments.out:
        tokens = arguments.windows * (arguments.length - 1)
        about = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "torch": torch.__version__}
        about |= {"tokens": tokens, "codebook": NF4, "rows": rows}
        arguments.out.write_text(json.dumps(about, indent=1) + "\n")
        arguments.out.with_suffix(".md").write_text(f"{about['date']}, {tokens} tokens of held-out text.\n\n{table}\n")


if __name__ == "__main__":
    main()
