"""Makes a model with drafters that are right for a known share of tokens: `python drafters.py OUT [--shape NAME]`.

Each folder has a complete checkpoint as the engine reads it: `target`, and for it `draft` (a smaller model), `eagle`,
`eagle3` and `medusa`. Tests of identity need drafts that are accepted and drafts that are not; random heads have none
that are. `benchmarks/speculation_methods` makes a published shape of it on a card.

The target's next token is nearly always a permutation of its last one: the output head holds the permuted embedding, and
the layers add little. Each drafter holds a permutation that agrees for some tokens. Needs torch and safetensors.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

DEMO = Path(__file__).resolve().parents[1] / "demo"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
AGREES = 0.7
"""Share of the tokens after which a drafter is right."""
SHARPNESS = 1.5
"""Of the heads' attention: a token attends to itself, since the permutation repeats none for long."""
BESIDE = 0.1
"""How much the layers add to a token's embedding: text depends on what is before, and the best token stays the best."""
DRAFTERS = ("draft", "eagle", "eagle3", "medusa")
Tensors = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a target or a drafter in the Llama family."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    context: int

    @property
    def head_dim(self) -> int:
        """Values of one attention head."""
        return self.hidden // self.heads

    def config(self, **more: object) -> dict[str, Any]:
        """The sizes as config.json spells them."""
        return {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": self.vocabulary,
            "hidden_size": self.hidden, "intermediate_size": self.intermediate, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "max_position_embeddings": self.context, "rms_norm_eps": 1e-6, "hidden_act": "silu",
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "tie_word_embeddings": False,
            "bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0, "dtype": "bfloat16", **more,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """A target, the smaller model that drafts for it, and the vocabulary of its Eagle-3 head."""

    target: Shape
    draft: Shape
    eagle3_vocabulary: int
    medusa_heads: int = 4


SHAPES = {
    "tiny": Family(Shape(256, 512, 8, 4, 2, 6144, 1024), Shape(128, 256, 2, 4, 2, 6144, 1024), 5120),
    # Llama-3.1-8B with a drafter of Llama-3.2-1B's shape; Eagle-3's published head has 32,000 tokens.
    "llama-8b": Family(
        Shape(4096, 14336, 32, 32, 8, 128256, 8192), Shape(2048, 8192, 16, 32, 8, 128256, 8192), 32000
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Maker:
    """Draws tensors: the same seed and device give the same ones."""

    generator: torch.Generator
    device: torch.device

    @classmethod
    def of(cls, device: str, seed: int) -> Maker:
        """A maker on a device."""
        where = torch.device(device)
        return cls(torch.Generator(where).manual_seed(seed), where)

    def normal(self, *sizes: int, spread: float = 1.0) -> Tensor:
        """Normal values; as many bits as a checkpoint has."""
        drawn = torch.randn(*sizes, generator=self.generator, device=self.device, dtype=torch.float32)
        return (drawn * spread).to(torch.bfloat16)

    def permutation(self, count: int) -> Tensor:
        """Of that many tokens."""
        return torch.randperm(count, generator=self.generator, device=self.device)

    def near(self, permutation: Tensor, agrees: float = AGREES) -> Tensor:
        """A permutation that agrees in that share of tokens, and turns the others round among themselves."""
        changed = (torch.rand(len(permutation), generator=self.generator, device=self.device) >= agrees).nonzero()[:, 0]
        found = permutation.clone()
        found[changed] = permutation[changed.roll(1)]
        return found


def next_token_head(embedding: Tensor, permutation: Tensor) -> Tensor:
    """The output head that answers a token's embedding with the token's image."""
    head = torch.empty_like(embedding)
    head[permutation] = embedding
    return head


def layer(
    maker: Maker, shape: Shape, prefix: str, width: int = 0, beside: float = BESIDE
) -> Iterator[tuple[str, Tensor]]:
    """A decoder layer that adds little; `width` is what its attention reads, where that is not the hidden size."""
    hidden, inner, kv, reads = shape.hidden, shape.intermediate, shape.kv_heads * shape.head_dim, width or shape.hidden
    for name, sizes, gain in (
        ("self_attn.q_proj", (hidden, reads), 1.0),
        ("self_attn.k_proj", (kv, reads), 1.0),
        ("self_attn.v_proj", (kv, reads), 1.0),
        ("self_attn.o_proj", (hidden, hidden), beside),
        ("mlp.gate_proj", (inner, hidden), 1.0),
        ("mlp.up_proj", (inner, hidden), 1.0),
        ("mlp.down_proj", (hidden, inner), beside),
    ):
        yield f"{prefix}.{name}.weight", maker.normal(*sizes, spread=gain / math.sqrt(sizes[1]))
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield f"{prefix}.{name}.weight", _ones(maker, hidden)


def whole_model(maker: Maker, shape: Shape, permutation: Tensor, out: Path) -> Tensor:
    """A causal language model in a file a layer; its embedding."""
    embedding = maker.normal(shape.vocabulary, shape.hidden)
    ends = {
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": _ones(maker, shape.hidden),
        "lm_head.weight": next_token_head(embedding, permutation),
    }
    beside = BESIDE / math.sqrt(shape.layers)
    parts: Iterator[Tensors] = (
        dict(layer(maker, shape, f"model.layers.{at}", beside=beside)) for at in range(shape.layers)
    )
    _write(out, shape.config(), iter([ends]), parts)
    return embedding


def eagle(maker: Maker, shape: Shape, embedding: Tensor, agrees: Tensor, out: Path) -> None:
    """An Eagle head: it has its own embedding, in which the tokens that it gets wrong have another's row.

    The engine gives it the target's output head, so that its embedding alone can be wrong.
    """
    hidden = shape.hidden
    through = torch.cat([_eye(maker, hidden), _eye(maker, hidden) * BESIDE / 10], dim=1)
    tensors = {"embed_tokens.weight": embedding[agrees], "fc.weight": through}
    tensors |= dict(layer(maker, replace(shape, layers=1), "layers.0"))
    del tensors["layers.0.input_layernorm.weight"]  # the first layer of such a head has none
    _write(out, replace(shape, layers=1).config(), iter([tensors]))


def eagle3(maker: Maker, family: Family, embedding: Tensor, permutation: Tensor, out: Path) -> None:
    """An Eagle-3 head: its attention copies the newest token's embedding to the output, in a smaller vocabulary.

    Each token attends to itself: queries and keys are one projection of the embedding, which two tokens share seldom.
    """
    shape, vocabulary = family.target, family.eagle3_vocabulary
    hidden, kv, groups = shape.hidden, shape.kv_heads * shape.head_dim, shape.heads // shape.kv_heads
    into = torch.linalg.qr(maker.normal(hidden, kv).float())[0].T.to(torch.bfloat16).contiguous()
    key = maker.normal(shape.head_dim, hidden, spread=SHARPNESS / math.sqrt(hidden))
    back = torch.zeros(hidden, shape.heads, shape.head_dim, dtype=torch.bfloat16, device=maker.device)
    back[:, ::groups] = into.T.reshape(hidden, shape.kv_heads, shape.head_dim)
    head = next_token_head(embedding, permutation)[:vocabulary].contiguous()
    tensors = dict(layer(maker, shape, "midlayer", width=2 * hidden))
    tensors |= {
        "midlayer.self_attn.q_proj.weight": _of_embeddings(key.repeat(shape.heads, 1)),
        "midlayer.self_attn.k_proj.weight": _of_embeddings(key.repeat(shape.kv_heads, 1)),
        "midlayer.self_attn.v_proj.weight": _of_embeddings(into),
        "midlayer.self_attn.o_proj.weight": back.reshape(hidden, hidden).contiguous(),
        "midlayer.hidden_norm.weight": _ones(maker, hidden),
        "fc.weight": torch.cat([_eye(maker, hidden) * BESIDE / 3] * 3, dim=1),
        "norm.weight": _ones(maker, hidden),
        "lm_head.weight": head,
        "d2t": torch.zeros(vocabulary, dtype=torch.int64, device=maker.device),
        "t2d": torch.arange(shape.vocabulary, device=maker.device) < vocabulary,
    }
    config = replace(shape, layers=1).config(architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=vocabulary)
    _write(out, config, iter([tensors]))


def medusa(maker: Maker, family: Family, embedding: Tensor, permutation: Tensor, out: Path) -> None:
    """Medusa heads: head i answers the newest token's hidden state with the token i + 2 places on."""
    shape, image = family.target, permutation
    tensors: Tensors = {}
    for head in range(family.medusa_heads):
        image = permutation[image]
        tensors[f"blocks.{head}.layers.0.weight"] = torch.zeros(
            shape.hidden, shape.hidden, dtype=torch.bfloat16, device=maker.device
        )
        tensors[f"lm_heads.{head}.weight"] = next_token_head(embedding, image)
    config = {
        "architectures": ["MedusaModel"], "model_type": "medusa", "hidden_size": shape.hidden,
        "vocab_size": shape.vocabulary, "num_heads": family.medusa_heads, "num_hidden_layers": 1, "dtype": "bfloat16",
    }  # fmt: skip
    _write(out, config, iter([tensors]))


def make(out: Path, family: Family, maker: Maker) -> None:
    """All folders below `out`, replacing what is there."""
    known = family.eagle3_vocabulary  # a text that begins in the Eagle-3 head's vocabulary stays in it
    others = maker.permutation(family.target.vocabulary - known) + known
    permutation = torch.cat([maker.permutation(known), others])
    embedding = whole_model(maker, family.target, permutation, out / "target")
    whole_model(maker, family.draft, maker.near(permutation), out / "draft")
    identity = torch.arange(family.target.vocabulary, device=maker.device)
    eagle(maker, family.target, embedding, maker.near(identity), out / "eagle")
    eagle3(maker, family, embedding, maker.near(permutation), out / "eagle3")
    medusa(maker, family, embedding, maker.near(permutation), out / "medusa")
    for name in ("target", "draft"):
        for file in TOKENIZER_FILES:
            shutil.copyfile(DEMO / file, out / name / file)
        _widen(out / name / "tokenizer.json", family.target.vocabulary)


def _widen(tokenizer: Path, vocabulary: int) -> None:
    """Give every number of a larger vocabulary a text of its own: the engine writes what a token stands for."""
    content = json.loads(tokenizer.read_text())
    known = content["model"]["vocab"]
    numbers = {*known.values(), *(row["id"] for row in content["added_tokens"])}
    known |= {f"t{number}": number for number in range(vocabulary) if number not in numbers}
    tokenizer.write_text(json.dumps(content, ensure_ascii=False))


def _of_embeddings(weight: Tensor) -> Tensor:
    """A projection that reads the embedding and not the hidden state beside it."""
    return torch.cat([weight, torch.zeros_like(weight)], dim=1)


def _eye(maker: Maker, size: int) -> Tensor:
    return torch.eye(size, dtype=torch.bfloat16, device=maker.device)


def _ones(maker: Maker, size: int) -> Tensor:
    return torch.ones(size, dtype=torch.bfloat16, device=maker.device)


def _write(out: Path, config: dict[str, Any], *parts: Iterator[Tensors]) -> None:
    """config.json and the weights, a file a part with an index; one part is model.safetensors."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    places: dict[str, str] = {}
    for number, tensors in enumerate(tensors for some in parts for tensors in some):
        file = f"part-{number}.safetensors"
        save_file({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, str(out / file))
        places |= dict.fromkeys(tensors, file)
    if len(set(places.values())) == 1:
        (out / "part-0.safetensors").rename(out / "model.safetensors")
        return
    index = json.dumps({"metadata": {}, "weight_map": places}, indent=1)
    (out / "model.safetensors.index.json").write_text(index + "\n")


def main() -> int:
    """Make the folders."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="a folder; target and drafters become folders in it")
    parser.add_argument("--shape", choices=tuple(SHAPES), default="tiny")
    parser.add_argument("--device", default="cpu", help="where the tensors are drawn: cpu or cuda")
    parser.add_argument("--seed", type=int, default=34)
    said = parser.parse_args()
    make(said.out, SHAPES[said.shape], Maker.of(said.device, said.seed))
    print(said.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
