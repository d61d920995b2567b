"""Texts that no rule of the policy was tuned on, in tokens, for `cells.py`.

    python prepare_cells.py OUT.json.gz --alpaca-eval CLONE --wmt CLONE --tau-bench CLONE

- chat: tatsu-lab/alpaca_eval, the answers of Meta-Llama-3-8B-Instruct (Apache-2.0);
- translation: wmt-conference/wmt23-news-systems, English to German by GPT4-5shot, two paragraphs a request;
- agent: sierra-research/tau-bench, the airline's trajectories of gpt-4o (MIT): the conversation's end, next message;
- no repeats: random tokens.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

from windlass.bench import tokens

PROMPT_TOKENS, OUTPUT_TOKENS, ROWS, PARAGRAPHS = 768, 256, 320, 2
Text = tuple[str, str]
"""A prompt and what followed."""


def main() -> None:
    """Every workload's first rows; a prompt keeps its end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for name in ("alpaca-eval", "wmt", "tau-bench"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="a clone, with or without a work tree")
    wanted = parser.parse_args()
    encode = tokens.tokenizer("tekken")
    texts = {"chat": chat(wanted.alpaca_eval), "translation": translation(wanted.wmt), "agent": agent(wanted.tau_bench)}
    found = {
        name: [(encode(prompt)[-PROMPT_TOKENS:], encode(output)[:OUTPUT_TOKENS]) for prompt, output in rows][:ROWS]
        for name, rows in texts.items()
    }
    chance = random.Random(2)  # noqa: S311 - no secret
    ids = [chance.sample(range(1000, 130_000), 200 + OUTPUT_TOKENS) for _ in range(ROWS)]
    found["no repeats"] = [(row[:200], row[200:]) for row in ids]
    wanted.out.write_bytes(gzip.compress(json.dumps(found, separators=(",", ":")).encode(), mtime=0))
    print({name: len(rows) for name, rows in found.items()}, wanted.out.stat().st_size)


def kept(clone: Path, path: str) -> str:
    """A file of the clone's last commit."""
    return subprocess.run(["git", "-C", clone, "show", f"HEAD:{path}"], check=True, capture_output=True).stdout.decode()


def chat(clone: Path) -> list[Text]:
    """A question of AlpacaEval, and its answer."""
    rows = json.loads(kept(clone, "results/Meta-Llama-3-8B-Instruct/model_outputs.json"))
    return [(row["instruction"], row["output"]) for row in rows]


def translation(clone: Path) -> list[Text]:
    """Some paragraphs in English, and in German."""
    source = kept(clone, "txt/sources/generaltest2023.en-de.src.en").splitlines()
    target = kept(clone, "txt/system-outputs/generaltest2023.en-de.hyp.GPT4-5shot.de").splitlines()
    return [
        ("Translate into German:\n" + "\n".join(source[at : at + PARAGRAPHS]), "\n".join(target[at : at + PARAGRAPHS]))
        for at in range(0, len(source), PARAGRAPHS)
    ]


def agent(clone: Path) -> list[Text]:
    """What was there before each message of the assistant, and the message; a task's messages in their order."""
    talks = json.loads(kept(clone, "historical_trajectories/gpt-4o-airline.json"))
    return [row for talk in talks if talk["trial"] == 0 for row in _messages(talk["traj"])]


def _messages(talk: list[dict[str, object]]) -> Iterator[Text]:
    before = ""
    for message in talk:
        text = str(message.get("content") or "") + (
            json.dumps(message["tool_calls"]) if message.get("tool_calls") else ""
        )
        if message["role"] == "assistant" and text:
            yield before, text
        before += f"<{message['role']}>\n{text}\n"


if __name__ == "__main__":
    main()
