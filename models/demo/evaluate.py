"""Measures the demo model: `python models/demo/evaluate.py`; needs torch and transformers, `--equality` vLLM too.

Held-out phrasings of known questions, source never trained on, tool calls and JSON. Everything is greedy, through
transformers in float32 unless told otherwise. Prints a table or JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from collect import DataError, collect
from dialogue import HELD_OUT, TOOLS, Dialogue, Knowledge, Template, asked, json_object, offered, user
from prepare import rows_of
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = Path(__file__).resolve().parent
BATCH = 250
IN_PROCESS = {"distributed_executor_backend": "uni", "gpu_memory_utilization": 0.2}  # on a CPU: a share of all memory


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: what was measured, on how many items, and what came out."""

    measure: str
    items: int
    value: str


class Reader:
    """A model directory in transformers, answering greedily."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(self.device).eval()
        self.context = self.model.config.max_position_embeddings

    @torch.no_grad()
    def ids(self, prompts: Sequence[str], limit: int = 128) -> Iterator[list[int]]:
        """The tokens said after each prompt, the stop token left out."""
        for start in range(0, len(prompts), BATCH):
            batch = self.tokenizer(list(prompts[start : start + BATCH]), return_tensors="pt", padding=True).to(
                self.device
            )
            said = self.model.generate(**batch, max_new_tokens=limit, do_sample=False)
            stops = set(self.model.generation_config.eos_token_id)
            for row in said[:, batch["input_ids"].shape[1] :].tolist():
                yield row[: next((at for at, token in enumerate(row) if token in stops), len(row))]

    def says(self, prompts: Sequence[str], limit: int = 128) -> list[str]:
        """The text said after each prompt."""
        return [self.tokenizer.decode(row) for row in self.ids(prompts, limit)]

    @torch.no_grad()
    def nats(self, text: str) -> tuple[float, int]:
        """The summed loss of a text and its tokens, read in windows of the model's whole context."""
        ids = self.tokenizer(text, return_tensors="pt").input_ids[0].to(self.device)
        total, count = 0.0, 0
        for window in ids.split(self.context):
            if len(window) > 1:
                logits = self.model(window[None]).logits[0, :-1].float()
                total += float(torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum"))
                count += len(window) - 1
        return total, count


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=HERE, help="the model directory (default: this folder)")
    parser.add_argument(
        "--work", type=Path, default=Path(".cache/demo-model"), help="the collected data; made when absent"
    )
    parser.add_argument("--questions", type=int, default=2000, help="questions in held-out phrasings")
    parser.add_argument("--calls", type=int, default=300, help="requests for tool calls, and as many for JSON")
    parser.add_argument("--files", type=int, default=0, help="held-out source files at most (default: all)")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument(
        "--equality", type=int, metavar="N", help="instead: compare transformers with vLLM on N prompts"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    arguments = parser.parse_args()
    try:
        if not (arguments.work / "held_out.jsonl").exists():
            collect(arguments.work)
        figures = list(measured(arguments))
    except (DataError, OSError) as error:
        print(f"evaluate: {error}", file=sys.stderr)
        return 1
    print(json.dumps([asdict(row) for row in figures], indent=1) if arguments.output == "json" else table(figures))
    unequal = [row for row in figures if row.measure.startswith("equal") and int(row.value) != row.items]
    return 1 if unequal else 0


def measured(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Every figure that was asked for."""
    rows = rows_of(arguments.work / "facts.jsonl")
    questions = held_out_questions(rows, arguments.questions)
    if arguments.equality:
        yield equality(arguments.model, [prompt for _, prompt, _ in questions[: arguments.equality]])
        return
    reader = Reader(arguments.model, getattr(torch, arguments.dtype))
    yield from answers(reader, questions)
    texts = [row["text"] for row in rows_of(arguments.work / "held_out.jsonl")]
    yield from source(reader, texts[: arguments.files or None])
    yield from calls(reader, Knowledge.of(rows), arguments.calls)
    yield json_texts(reader, arguments.calls)


def held_out_questions(rows: list[dict[str, str]], count: int) -> list[tuple[str, str, str]]:
    """Phrasing, prompt and answer of names drawn at random, each in a phrasing never trained on."""
    facts, template, random = Knowledge.of(rows).facts, Template(), Random(7)
    chosen: list[tuple[str, str, str]] = []
    for name in random.sample(sorted(facts), min(count, len(facts))):
        phrasing = random.choice(HELD_OUT)
        chosen.append((phrasing, template(Dialogue((user(phrasing.format(name)),)), prompt=True), facts[name]))
    return chosen


def answers(reader: Reader, questions: list[tuple[str, str, str]]) -> Iterator[Figure]:
    """Exact match and ROUGE-L, over all and by phrasing."""
    said = reader.says([prompt for _, prompt, _ in questions])
    rows = [
        (phrasing, text == wanted, rouge_l(text, wanted))
        for text, (phrasing, _, wanted) in zip(said, questions, strict=True)
    ]
    yield Figure("held-out phrasings, exact answer", len(rows), percent(sum(exact for _, exact, _ in rows), len(rows)))
    yield Figure("held-out phrasings, ROUGE-L", len(rows), f"{sum(score for _, _, score in rows) / len(rows):.4f}")
    for phrasing in HELD_OUT:
        group = [exact for words, exact, _ in rows if words == phrasing]
        yield Figure(f"exact: “{phrasing.format('…')}”", len(group), percent(sum(group), len(group)))


def rouge_l(said: str, wanted: str) -> float:
    """ROUGE-L (Lin 2004): the F1 of the longest common subsequence of words."""
    left, right = said.split(), wanted.split()
    lengths = [0] * (len(right) + 1)
    for word in left:
        diagonal = 0
        for at, other in enumerate(right, 1):
            diagonal, lengths[at] = lengths[at], diagonal + 1 if word == other else max(lengths[at], lengths[at - 1])
    return 2 * lengths[-1] / max(1, len(left) + len(right))


def source(reader: Reader, texts: list[str]) -> Iterator[Figure]:
    """Perplexity a token and bits a byte on source that training never saw."""
    parts = [reader.nats(text) for text in texts]
    nats, count, size = (
        sum(part[0] for part in parts),
        sum(part[1] for part in parts),
        sum(len(text.encode()) for text in texts),
    )
    yield Figure("held-out source, perplexity a token", count, f"{math.exp(nats / count):.3f}")
    yield Figure("held-out source, bits a byte", size, f"{nats / math.log(2) / size:.3f}")


def calls(reader: Reader, knowledge: Knowledge, count: int) -> Iterator[Figure]:
    """Tool calls in the hermes form: well-formed, of the right function, with the right arguments; and none unasked."""
    random, template = Random(11), Template()
    requests: list[tuple[str, str, dict[str, Any]]] = []
    for number in range(count):
        tool = TOOLS[number % len(TOOLS)]
        text, wanted = asked(tool, random)
        requests.append((template(Dialogue((user(text),), offered(tool, random)), prompt=True), tool.name, wanted))
    found = [parsed_call(text) for text in reader.says([prompt for prompt, _, _ in requests])]
    pairs = list(zip(found, requests, strict=True))
    yield Figure("tool calls, well-formed", count, percent(sum(call is not None for call in found), count))
    yield Figure(
        "tool calls, right function",
        count,
        percent(sum(call is not None and call[0] == name for call, (_, name, _) in pairs), count),
    )
    yield Figure(
        "tool calls, right arguments",
        count,
        percent(sum(call == (name, wanted) for call, (_, name, wanted) in pairs), count),
    )
    names = random.sample(sorted(knowledge.facts), count)
    unasked = [
        template(Dialogue((knowledge.question(name, random),), offered(random.choice(TOOLS), random)), prompt=True)
        for name in names
    ]
    quiet = sum("<tool_call>" not in text for text in reader.says(unasked))
    yield Figure("no call where none is asked for", count, percent(quiet, count))


def parsed_call(text: str) -> tuple[str, dict[str, Any]] | None:
    """Name and arguments of a text that is one tool call, else nothing."""
    body = text.strip()
    if not (body.startswith("<tool_call>") and body.endswith("</tool_call>")):
        return None
    try:
        call = json.loads(body.removeprefix("<tool_call>").removesuffix("</tool_call>"))
        return str(call["name"]), dict(call["arguments"])
    except (ValueError, KeyError, TypeError):
        return None


def json_texts(reader: Reader, count: int) -> Figure:
    """Requests for JSON answered with exactly the wanted value."""
    random, template = Random(13), Template()
    dialogues = [json_object(random) for _ in range(count)]
    prompts = [template(Dialogue(dialogue.messages[:-1]), prompt=True) for dialogue in dialogues]
    pairs = zip(reader.says(prompts), (dialogue.messages[-1]["content"] for dialogue in dialogues), strict=True)
    return Figure("JSON asked for, exact", count, percent(sum(said == wanted for said, wanted in pairs), count))


def equality(folder: Path, prompts: list[str]) -> Figure:
    """On how many prompts transformers and vLLM say the same tokens, both greedy in float32."""
    os.environ |= {"VLLM_LOGGING_STREAM": "ext://sys.stderr", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    reader = Reader(folder, torch.float32)
    expected = list(reader.ids(prompts))
    from vllm import LLM, SamplingParams  # only this measure needs the engine

    engine = LLM(str(folder), dtype="float32", enforce_eager=True, max_num_seqs=16, **IN_PROCESS)
    stops = list(reader.model.generation_config.eos_token_id)
    outputs = engine.generate(
        prompts, SamplingParams(temperature=0, max_tokens=128, stop_token_ids=stops), use_tqdm=False
    )
    said = [[token for token in output.outputs[0].token_ids if token not in stops] for output in outputs]
    equal = sum(ours == theirs for ours, theirs in zip(expected, said, strict=True))
    return Figure("equal greedy tokens, transformers and vLLM, float32", len(prompts), str(equal))


def percent(part: int, whole: int) -> str:
    """A share, as people read it."""
    return f"{100 * part / whole:.2f} %"


def table(figures: list[Figure]) -> str:
    """A Markdown table."""
    rows = [f"| {row.measure} | {row.items:,} | {row.value} |" for row in figures]
    return "\n".join(["| measure | items | result |", "| --- | --- | --- |", *rows])


if __name__ == "__main__":
    sys.exit(main())
