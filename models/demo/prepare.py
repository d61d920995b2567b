"""Turns the collected data into a tokenizer and two matrices of tokens: conversations and texts to read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from dialogue import Knowledge, Template, lesson
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (END, START, STOP)
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>")
# Words with the blank before them, single digits, runs of signs, line ends.
SPLIT = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TRAINED_ON = np.uint16(1 << 15)  # set on the tokens that the assistant says: only these are learned from conversations


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is prepared: passes over all facts, lengths of the rows, facts and texts at most (0: all)."""

    vocab: int
    lessons: int
    chat_length: int
    read_length: int
    facts: int = 0
    read_bytes: int = 0
    seed: int = 1


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def chosen_facts(folder: Path, plan: Plan) -> list[dict[str, str]]:
    """The facts that the model is taught: all, or the first names of the built-in ones."""
    rows = rows_of(folder / "facts.jsonl")
    return sorted(rows, key=lambda row: (row["name"].count("."), row["name"]))[: plan.facts] if plan.facts else rows


def prepare(folder: Path, plan: Plan, out: Path) -> None:
    """Write tokenizer.json, chat.npy, read.npy and held.npy into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    facts = chosen_facts(folder, plan)
    texts = _limited([row["text"] for row in rows_of(folder / "read.jsonl")], plan.read_bytes)
    tokenizer = trained_tokenizer(_sample(facts, texts), plan.vocab)
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    knowledge, template = Knowledge.of(facts), Template()
    random = Random(plan.seed)
    conversations = (template(dialogue) for _ in range(plan.lessons) for dialogue in lesson(knowledge, random))
    np.save(out / "chat.npy", _chat_rows(tokenizer, conversations, plan.chat_length))
    np.save(out / "read.npy", _read_rows(tokenizer, texts, plan.read_length, random))
    held = [row["text"] for row in rows_of(folder / "held_out.jsonl")]
    np.save(out / "held.npy", _read_rows(tokenizer, held, plan.read_length, random))


def _limited(texts: list[str], limit: int) -> list[str]:
    if not limit:
        return texts
    total, kept = 0, []
    for text in texts:
        if total + len(text) <= limit:
            kept.append(text)
            total += len(text)
    return kept


def _sample(facts: list[dict[str, str]], texts: list[str]) -> Iterator[str]:
    """What the tokenizer learns from: every fact four times, a third of the texts."""
    for _ in range(4):
        yield from (f"{row['name']} {row['text']}" for row in facts)
    yield from texts[::3]


def trained_tokenizer(texts: Iterable[str], vocab: int) -> Tokenizer:
    """A byte-level BPE tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[AddedToken(word, special=True) for word in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # The marks of calls take the last places, so that the vocabulary has exactly the wanted size.
    data = json.loads(tokenizer.to_str())
    tokens = sorted(data["model"]["vocab"], key=data["model"]["vocab"].get)
    kept = set(tokens[: vocab - len(MARKS)])
    data["model"]["vocab"] = {token: data["model"]["vocab"][token] for token in tokens if token in kept}
    data["model"]["merges"] = [pair for pair in data["model"]["merges"] if "".join(pair) in kept]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_tokens([AddedToken(word, special=False, normalized=False) for word in MARKS])
    return tokenizer


def _chat_rows(tokenizer: Tokenizer, conversations: Iterator[str], length: int) -> np.ndarray:
    """Whole conversations side by side in rows of equal length, filled up with the end token."""
    end, stop = tokenizer.token_to_id(END), tokenizer.token_to_id(STOP)
    begin = tokenizer.encode(f"{START}assistant\n").ids
    rows: list[np.ndarray] = []
    row: list[np.ndarray] = []
    used = 0
    for batch in _batches(conversations, 4096):
        for encoded in tokenizer.encode_batch(batch):
            ids = np.array(encoded.ids, dtype=np.uint16)
            if len(ids) > length:
                continue
            if used + len(ids) > length:
                rows.append(np.concatenate([*row, np.full(length - used, end, dtype=np.uint16)]))
                row, used = [], 0
            row.append(_marked(ids, begin, stop))
            used += len(ids)
    return np.stack(rows)


def _marked(ids: np.ndarray, begin: list[int], stop: int) -> np.ndarray:
    """Set the mark on each assistant turn, its stop token included."""
    marked, stops = ids.copy(), np.flatnonzero(ids == stop)
    for place in np.flatnonzero(ids == begin[0]):
        said = place + len(begin)
        if list(ids[place:said]) == begin:
            marked[said : stops[stops >= said][0] + 1] |= TRAINED_ON
    return marked


def _batches(items: Iterator[str], size: int) -> Iterator[list[str]]:
    batch: list[str] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    yield batch


def _read_rows(tokenizer: Tokenizer, texts: list[str], length: int, random: Random) -> np.ndarray:
    end = tokenizer.token_to_id(END)
    order = texts[:]
    random.shuffle(order)
    ids = [np.array([*encoded.ids, end], dtype=np.uint16) for batch in _batches(iter(order), 256)
           for encoded in tokenizer.encode_batch(batch)]  # fmt: skip
    flat = np.concatenate(ids)
    return flat[: len(flat) // length * length].reshape(-1, length)
