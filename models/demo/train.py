"""Makes the demo model from nothing: `python models/demo/train.py` on one GPU, `--cpu` for a smaller one without.

Data comes from Debian packages (collect.py), becomes tokens (prepare.py), trains a Qwen2 network (qwen2.py), and the
result is a model directory that transformers and vLLM load. Needs torch, numpy, tokenizers, safetensors, jinja2.
Optimizers: Muon (Jordan 2024, orthogonalized momentum) for the matrices inside the layers, AdamW for the rest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from collect import DataError, collect
from dialogue import HELD_OUT, Dialogue, Knowledge, Template, user
from prepare import END, SPECIAL, STOP, TRAINED_ON, Plan, chosen_facts, prepare
from qwen2 import Network, Shape
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the outcome, besides the data: sizes, amounts, rates, seed."""

    shape: Shape
    plan: Plan
    steps: int
    chat_rows: int
    read_rows: int
    muon_rate: float = 0.02
    adam_rate: float = 3e-3
    decay: float = 0.01  # of the matrices, times the rate, a step
    warmup_steps: int = 100
    flat_share: float = 0.4  # of the steps at the full rate, before it falls linearly to nothing
    questions: int = 2000  # asked at the end, in held-out phrasings
    seed: int = 1


GPU = Recipe(
    Shape(), Plan(vocab=6144, lessons=24, chat_length=512, read_length=2048), steps=4500, chat_rows=192, read_rows=8
)
CPU = Recipe(
    Shape(vocab=2048, hidden=128, layers=2, heads=4, kv_heads=2, feed_forward=256, context=512),
    Plan(vocab=2048, lessons=24, chat_length=256, read_length=256, facts=120, read_bytes=400_000),
    steps=400, chat_rows=12, read_rows=1, warmup_steps=20, questions=16,
)  # fmt: skip


def main() -> int:
    """Collect, prepare, train, save; each step is skipped when its result is there already."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE, help="the model directory (default: this folder)")
    parser.add_argument("--work", type=Path, default=Path(".cache/demo-model"), help="downloads and tokens")
    parser.add_argument("--cpu", action="store_true", help="a smaller model, in minutes, without a GPU")
    parser.add_argument(
        "--only-prepare", action="store_true", help="stop before training: for a GPU machine without network"
    )
    parser.add_argument("--steps", type=int, help="another number of steps than the recipe's")
    parser.add_argument("--seed", type=int, help="another seed than the recipe's")
    arguments = parser.parse_args()
    recipe = CPU if arguments.cpu else GPU
    changes = {key: value for key in ("steps", "seed") if (value := getattr(arguments, key)) is not None}
    recipe = replace(recipe, **changes)
    if not arguments.cpu and not arguments.only_prepare and not torch.cuda.is_available():
        print("train: no GPU is visible; use --cpu for the smaller model", file=sys.stderr)
        return 1
    try:
        tokens = prepared(arguments.work, recipe.plan, accept=arguments.cpu)
    except DataError as error:
        print(f"train: {error}", file=sys.stderr)
        return 1
    if arguments.only_prepare:
        return 0
    make(recipe, arguments.work, tokens, arguments.out)
    return 0


def prepared(work: Path, plan: Plan, accept: bool) -> Path:
    """The folder with tokenizer and tokens of a plan, made when absent; `accept` takes other package versions."""
    sources = (HERE / name for name in ("collect.py", "dialogue.py", "prepare.py", "chat_template.jinja", "data.json"))
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources) + repr(plan).encode()).hexdigest()[:12]
    out = work / f"tokens-{key}"
    if not (out / "done").exists():
        started = time.monotonic()
        print(f"collected: {collect(work, accept=accept)}, {time.monotonic() - started:.0f} s", flush=True)
        prepare(work, plan, out)
        shutil.copy(work / "facts.jsonl", out)
        (out / "done").touch()
        print(f"prepared {out}: {time.monotonic() - started:.0f} s", flush=True)
    return out


def make(recipe: Recipe, work: Path, tokens: Path, out: Path) -> None:
    """Train by the recipe and write the model directory."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(recipe.seed)
    torch.set_float32_matmul_precision("high")
    network = Network(recipe.shape).to(device)
    count = sum(weight.numel() for weight in network.parameters())
    print(f"{count / 1e6:.2f} M parameters on {device}", flush=True)
    started = time.monotonic()
    final = train(network, recipe, {name: np.load(tokens / f"{name}.npy") for name in ("chat", "read", "held")}, device)
    seconds = time.monotonic() - started
    tokenizer = Tokenizer.from_file(str(tokens / "tokenizer.json"))
    save(network, tokenizer, tokens, out)
    exact = held_out_exact(network, tokenizer, chosen_facts(tokens, recipe.plan), recipe.questions, device)
    facts = {"parameters": count, "seconds": round(seconds), "held_out_exact": exact, **final}
    versions = {"torch": torch.__version__, "device": torch.cuda.get_device_name() if device == "cuda" else "cpu"}
    (out / "training.json").write_text(json.dumps({**facts, **versions, "recipe": asdict(recipe)}, indent=1) + "\n")
    print(json.dumps({**facts, **versions}), flush=True)


def rate(step: int, recipe: Recipe) -> float:
    """The share of the full rate at a step: up, flat, linearly down."""
    if step < recipe.warmup_steps:
        return (step + 1) / recipe.warmup_steps
    done = step / recipe.steps
    return 1.0 if done < recipe.flat_share else max(0.0, (1 - done) / (1 - recipe.flat_share))


def shuffled(rows: Tensor, count: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches of `count` rows for ever, in a new order each time round."""
    while True:
        order = torch.randperm(len(rows), generator=generator)
        for start in range(0, len(rows) - count + 1, count):
            yield rows[order[start : start + count].to(rows.device)]


def train(network: Network, recipe: Recipe, rows: dict[str, np.ndarray], device: str) -> dict[str, float]:
    """Run the recipe's steps; return the mean losses (nats a token): of the last hundred, and on held-out text."""
    chat, read, held = (torch.from_numpy(rows[name].astype(np.int32)).to(device) for name in ("chat", "read", "held"))
    matrices = [w for name, w in network.named_parameters() if w.dim() == 2 and name.startswith("layers.")]
    others = [w for name, w in network.named_parameters() if w.dim() != 2 or not name.startswith("layers.")]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(others, lr=recipe.adam_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=device == "cuda")
    run = torch.compile(losses, dynamic=False) if device == "cuda" else losses
    generator = torch.Generator().manual_seed(recipe.seed)
    chats = shuffled(chat, recipe.chat_rows, generator)
    reads = shuffled(read, recipe.read_rows, generator)
    history: list[Tensor] = []
    started = time.monotonic()
    for step in range(recipe.steps):
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            said, said_count = run(network, next(chats), True)
            text, text_count = run(network, next(reads), False)
        ((said + text) / (said_count + text_count)).backward()
        share = rate(step, recipe)
        muon.step(recipe.muon_rate * share, recipe.decay)
        adam.param_groups[0]["lr"] = recipe.adam_rate * share
        adam.step()
        network.zero_grad(set_to_none=True)
        history.append(torch.stack((said.detach() / said_count, text.detach() / text_count)))
        if step % 100 == 99 or step == recipe.steps - 1:
            chat_loss, read_loss = torch.stack(history[-100:]).mean(0).tolist()
            seconds = time.monotonic() - started
            speed = (step + 1) * (recipe.chat_rows * chat.shape[1] + recipe.read_rows * read.shape[1]) / seconds
            print(f"{step + 1:5d}  answers {chat_loss:.4f}  text {read_loss:.4f}  {speed / 1e6:.2f} M tokens/s "
                  f"{seconds:4.0f} s", flush=True)  # fmt: skip
            if not math.isfinite(chat_loss + read_loss):
                raise SystemExit("train: the loss is not a number any more; lower the rates")
        if step % 1000 == 999 or step == recipe.steps - 1:
            unseen = held_out_loss(network, held, device)
            print(f"{step + 1:5d}  held-out text {unseen:.4f}", flush=True)
    return {
        "loss_answers": round(chat_loss, 4),
        "loss_text": round(read_loss, 4),
        "loss_held_out_text": round(unseen, 4),
    }


@torch.no_grad()
def held_out_loss(network: Network, rows: Tensor, device: str) -> float:
    """Nats a token on text never trained on."""
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        parts = [losses(network, batch, False) for batch in rows.split(16)]
    return float(sum(total for total, _ in parts) / sum(count for _, count in parts))


def losses(network: Network, rows: Tensor, only_said: bool) -> tuple[Tensor, Tensor]:
    """The summed cross-entropy of the next tokens that count, and how many these are; rows: [batch, tokens]."""
    tokens = rows & (int(TRAINED_ON) - 1)
    wanted = tokens[:, 1:].long()
    if only_said:
        wanted = torch.where((rows[:, 1:] & int(TRAINED_ON)) > 0, wanted, -100)
    logits = network(tokens[:, :-1].long()).float()
    total = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), wanted.reshape(-1), ignore_index=-100, reduction="sum"
    )
    return total, (wanted != -100).sum()


class Muon:
    """Momentum whose update is made orthogonal by five Newton-Schulz steps; matrices of one shape go together."""

    def __init__(self, weights: list[Tensor], momentum: float = 0.95) -> None:
        groups: dict[torch.Size, list[Tensor]] = {}
        for weight in weights:
            groups.setdefault(weight.shape, []).append(weight)
        self._groups = list(groups.values())
        self._velocity = [torch.zeros(len(group), *group[0].shape, device=group[0].device) for group in self._groups]
        self._momentum = momentum

    @torch.no_grad()
    def step(self, rate: float, decay: float) -> None:
        """Move every weight by `rate`, scaled for its shape, and shrink it by `rate` times `decay`."""
        for group, velocity in zip(self._groups, self._velocity, strict=True):
            gradient = torch.stack([weight.grad for weight in group])
            velocity.lerp_(gradient, 1 - self._momentum)
            update = orthogonal(gradient.lerp(velocity, self._momentum))
            scale = -rate * max(1.0, update.shape[-2] / update.shape[-1]) ** 0.5
            torch._foreach_mul_(group, 1 - rate * decay)
            torch._foreach_add_(group, list(update.to(group[0].dtype).unbind()), alpha=scale)


def orthogonal(matrices: Tensor) -> Tensor:
    """Each matrix with its singular values brought near one: Newton-Schulz of the fifth order, in bfloat16."""
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.mT if tall else x


def save(network: Network, tokenizer: Tokenizer, tokens: Path, out: Path) -> None:
    """Write the model directory."""
    out.mkdir(parents=True, exist_ok=True)
    end, stop = tokenizer.token_to_id(END), tokenizer.token_to_id(STOP)
    save_file(network.checkpoint(), str(out / "model.safetensors"), metadata={"format": "pt"})
    shutil.copy(tokens / "tokenizer.json", out / "tokenizer.json")
    if out.resolve() != HERE:
        shutil.copy(HERE / "chat_template.jinja", out / "chat_template.jinja")
    files = {
        "config.json": network.shape.config(stop, end),
        "generation_config.json": {"eos_token_id": [stop, end], "pad_token_id": end, "do_sample": False},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": STOP,
            "pad_token": END,
            "additional_special_tokens": list(SPECIAL),
            "model_max_length": network.shape.context,
            "clean_up_tokenization_spaces": False,
        },
    }
    for name, body in files.items():
        (out / name).write_text(json.dumps(body, indent=1) + "\n")


@torch.no_grad()
def held_out_exact(
    network: Network, tokenizer: Tokenizer, rows: list[dict[str, str]], count: int, device: str
) -> float:
    """The share of questions in phrasings never trained on whose greedy answer is the fact to the letter."""
    knowledge, template, random = Knowledge.of(rows), Template(), Random(7)
    names = random.sample(sorted(knowledge.facts), min(count, len(knowledge.facts)))
    stop, right = tokenizer.token_to_id(STOP), 0
    for start in range(0, len(names), 250):
        chosen = names[start : start + 250]
        texts = [template(Dialogue((user(random.choice(HELD_OUT).format(name)),)), prompt=True) for name in chosen]
        prompts = [tokenizer.encode(text).ids for text in texts]
        said = greedy(network, prompts, stop, 120, device)
        right += sum(tokenizer.decode(ids) == knowledge.facts[name] for ids, name in zip(said, chosen, strict=True))
    return round(right / len(names), 4)


def greedy(network: Network, prompts: list[list[int]], stop: int, limit: int, device: str) -> list[list[int]]:
    """Greedy continuations, without a cache: a whole forward pass a token, which a model this small allows."""
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    buffer = torch.zeros(len(prompts), int(lengths.max()) + limit, dtype=torch.long, device=device)
    for row, prompt in enumerate(prompts):
        buffer[row, : len(prompt)] = torch.tensor(prompt, device=device)
    rows, ends = torch.arange(len(prompts), device=device), lengths.clone()
    going = torch.ones_like(lengths, dtype=torch.bool)
    while bool(going.any()) and int((ends - lengths).max()) < limit:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = network(buffer[:, : int(ends.max())])
        token = logits[rows, ends - 1].argmax(-1)
        going &= token != stop
        buffer[rows, ends] = torch.where(going, token, buffer[rows, ends])
        ends += going
    return [buffer[row, lengths[row] : ends[row]].tolist() for row in range(len(prompts))]


if __name__ == "__main__":
    sys.exit(main())
