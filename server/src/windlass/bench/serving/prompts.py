"""Prompts that vLLM's client cannot read from their file as it is: conversations, and the demo's questions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files as resources
from pathlib import Path

from windlass.bench.serving import talks
from windlass.bench.serving.command import OUTPUT_LEN
from windlass.bench.serving.load import DataSet, Load
from windlass.engine.startup import chat_template
from windlass.engine.startup.chat_template import Template
from windlass.errors import UsageError

CONFIG, TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")
BLOCK = 10
"""The number of concurrent conversations where no concurrency is given."""
DEMO = "demo_questions.jsonl"


def known(load: Load) -> Load:
    """Write the demo's questions into a file of the benchmark."""
    if load.dataset is not DataSet.DEMO:
        return load
    return replace(load, dataset_path=str(resources("windlass.bench.serving") / DEMO))


def template(directory: Path) -> Template:
    """The chat template of a model directory."""
    try:
        config = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        own = directory / TEMPLATE
        text = own.read_text(encoding="utf-8") if own.is_file() else config.get("chat_template")
    except (OSError, ValueError):
        text, config = None, {}
    if not isinstance(text, str):
        raise UsageError(f"{directory} has no chat template, which --dataset multi-turn renders; give another data set")
    return Template(text, str(directory), tuple((name, _text(config.get(name))) for name in TOKENS))


def _text(token: object) -> str:
    """A special token, which some files wrap into an object."""
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")


def conversations(path: Path) -> list[list[talks.Message]]:
    """The conversations of a ShareGPT file with more than one turn."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise UsageError(f"--dataset-path {path} is no JSON; a ShareGPT file is one list of conversations") from None
    found = [talks.messages(row) for row in rows if isinstance(row, dict)]
    return [messages for messages in found if messages]


def conversation_requests(load: Load, talked: Sequence[Sequence[talks.Message]], block: int | None) -> str:
    """JSON lines of one run's requests."""
    shape = template(Path(load.tokenizer))
    text = chat_template.compiled(shape)

    def render(messages: Sequence[talks.Message]) -> str:
        known = {**dict(shape.tokens), "tools": None, "documents": None, "add_generation_prompt": True}
        return text.render(messages=list(messages), **known)

    prompts = talks.requests(talked, render, block or BLOCK, load.num_prompts)
    return talks.lines(prompts, load.output_len or OUTPUT_LEN)


def part(load: Load, folder: Path, number: int, of: int, block: int | None) -> Load:
    """The load of one run of several: its own conversations, written into the run's folder."""
    if load.dataset is not DataSet.MULTI_TURN or load.dataset_path is None:
        return load
    talked = conversations(Path(load.dataset_path))
    mine = talked[number * len(talked) // of : (number + 1) * len(talked) // of]
    if not mine:
        raise UsageError(f"--dataset-path holds {len(talked)} conversations for {of} runs; give a larger file")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "prompts.jsonl"
    path.write_text(conversation_requests(load, mine, block), encoding="utf-8")
    return replace(load, dataset_path=str(path))
