"""Makes tiny random models of many shapes in seconds: `python models/tiny/make.py OUT [KIND …]`; `--list` names them.

For tests of inspection, planning, loading and serving: each is a complete directory with the demo model's tokenizer and
chat template, but random weights. The same seed gives the same bytes: every tensor is drawn from a generator seeded by
its own name. Needs torch, transformers and safetensors; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, PretrainedConfig

DEMO = Path(__file__).resolve().parents[1] / "demo"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
SIZES: dict[str, Any] = {
    "vocab_size": 6144, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 1024, "bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
IMAGE_TOKEN = "<image>"  # noqa: S105 - a token of the vocabulary
IMAGE_SIDE, PATCH_SIDE = 56, 14  # pixels
VISION: dict[str, Any] = {
    "model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "image_size": IMAGE_SIDE, "patch_size": PATCH_SIDE, "projection_dim": 64,
}  # fmt: skip
PUBLISHED = re.compile(r"^vision_tower\.(?!vision_model\.)(.*)")  # LLaVA's checkpoints keep CLIP's own prefix
LORA_RANK = 8
Tensors = dict[str, Tensor]
Writer = Callable[[Tensors, Path], None]


class TinyError(Exception):
    """What was asked for cannot be made; the text says what can."""


def one_file(tensors: Tensors, out: Path) -> None:
    """All weights in model.safetensors."""
    save_file(tensors, str(out / "model.safetensors"), metadata={"format": "pt"})


def shards(tensors: Tensors, out: Path) -> None:
    """Three safetensors files and their index."""
    _indexed(tensors, out, "model-{:05d}-of-{:05d}.safetensors", "model.safetensors.index.json",
             lambda part, path: save_file(part, str(path), metadata={"format": "pt"}))  # fmt: skip


def bin_shards(tensors: Tensors, out: Path) -> None:
    """Three files in torch's own format and their index."""
    _indexed(tensors, out, "pytorch_model-{:05d}-of-{:05d}.bin", "pytorch_model.bin.index.json", torch.save)


def _indexed(tensors: Tensors, out: Path, pattern: str, index: str, write: Callable[[Tensors, Path], None]) -> None:
    names, count = sorted(tensors), 3
    size = math.ceil(len(names) / count)
    weight_map: dict[str, str] = {}
    for number in range(count):
        file, part = pattern.format(number + 1, count), names[number * size : (number + 1) * size]
        write({name: tensors[name] for name in part}, out / file)
        weight_map |= dict.fromkeys(part, file)
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    body = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (out / index).write_text(json.dumps(body, indent=1) + "\n")


@dataclass(frozen=True, slots=True)
class Kind:
    """One shape: what it is for, the architecture's name in transformers, what differs from SIZES, how it is stored."""

    about: str
    model_type: str
    changes: dict[str, Any] = field(default_factory=dict)
    write: Writer = one_file
    dtype: torch.dtype = torch.bfloat16
    files: Callable[[Path], None] = lambda out: None

    def config(self) -> PretrainedConfig:
        """The configuration, complete."""
        sizes = {} if "text_config" in self.changes else SIZES
        return AutoConfig.for_model(self.model_type, **{**sizes, **self.changes})


def vision_files(out: Path) -> None:
    """What an image needs beside the weights: how it is scaled, and its token."""
    side = {"height": IMAGE_SIDE, "width": IMAGE_SIDE}
    image = {
        "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": IMAGE_SIDE}, "crop_size": side,
        "do_resize": True, "do_center_crop": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 3, "rescale_factor": 1 / 255,
    }  # fmt: skip
    processor = {"processor_class": "LlavaProcessor", "image_token": IMAGE_TOKEN, "patch_size": PATCH_SIDE,
                 "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}  # fmt: skip
    _json(out / "preprocessor_config.json", image)
    _json(out / "processor_config.json", processor)
    tokenizer = json.loads((out / "tokenizer.json").read_text())
    row = {"id": SIZES["vocab_size"], "content": IMAGE_TOKEN, "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}  # fmt: skip
    tokenizer["added_tokens"].append(row)
    (out / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    template = out / "chat_template.jinja"
    plain = "(message.content or '')"
    parts = (
        "(message.content if message.content is string else message.content | map(attribute='text', default='"
        + IMAGE_TOKEN
        + "') | join('\\n'))"
    )
    text = template.read_text()
    if plain not in text:
        raise TinyError(f"{DEMO.name}/chat_template.jinja no longer writes {plain}: say here how parts are joined")
    template.write_text(text.replace(plain, parts))


def _vision_config() -> dict[str, Any]:
    text = {**SIZES, "model_type": "llama", "vocab_size": SIZES["vocab_size"] + 16, "tie_word_embeddings": False}
    return {"vision_config": VISION, "text_config": text, "image_token_index": SIZES["vocab_size"],
            "image_seq_length": (IMAGE_SIDE // PATCH_SIDE) ** 2, "vision_feature_layer": -2}  # fmt: skip


_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "norm_topk_prob": True, "head_dim": 32}  # fmt: skip
_MLA = {"num_key_value_heads": 4, "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 16, "qk_rope_head_dim": 64,
        "v_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1,
        "moe_intermediate_size": 64, "n_group": 1, "topk_group": 1, "topk_method": "greedy"}  # fmt: skip
KINDS: dict[str, Kind] = {
    "gqa": Kind("grouped-query attention, tied embeddings", "qwen2", {"tie_word_embeddings": True}),
    "mha": Kind("as many key/value heads as heads", "llama", {"num_key_value_heads": 4, "tie_word_embeddings": True}),
    "untied": Kind("an output head of its own", "qwen2", {"tie_word_embeddings": False}),
    "head-dim": Kind("a head size that is not hidden / heads", "qwen3", {"head_dim": 64, "tie_word_embeddings": True}),
    "moe": Kind("a mixture of four experts, two a token", "qwen3_moe", {**_MOE, "tie_word_embeddings": False}),
    "mla": Kind("multi-head latent attention", "deepseek_v2", {**_MLA, "tie_word_embeddings": False}),
    "vision": Kind("images beside text", "llava", _vision_config(), files=vision_files),
    "fp32": Kind("weights in float32", "qwen2", {"tie_word_embeddings": True}, dtype=torch.float32),
    "sharded": Kind("three safetensors files with an index", "llama", {"tie_word_embeddings": False}, shards),
    "gemma": Kind("norms that multiply by one more than their weight", "gemma", {"head_dim": 32}),
    "gemma2": Kind("norms around attention and MLP, capped logits", "gemma2", {"head_dim": 32}),
    "gemma3": Kind("local and global attention, six layers", "gemma3_text", {"head_dim": 32, "num_hidden_layers": 6}),
    "phi3": Kind("q, k and v in one matrix, gate and up in another", "phi3", {"tie_word_embeddings": False}),
    "glm4": Kind("gate and up in one matrix, biases", "glm4", {"head_dim": 32, "tie_word_embeddings": False}),
    "bin": Kind("three .bin files with an index", "llama", {"tie_word_embeddings": False}, bin_shards),
}
LORA = "lora"


def main() -> int:
    """Make the asked kinds, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="a folder; each kind becomes a folder in it")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="which (default: all)")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--base", type=Path, help="a model directory: the adapter is for that model instead of gqa")
    parser.add_argument("--list", action="store_true", help="print the kinds and what each is for")
    arguments = parser.parse_args()
    if arguments.list or not arguments.out:
        print("\n".join([*(f"{name:9} {kind.about}" for name, kind in KINDS.items()), f"{LORA:9} an adapter for gqa"]))
        return 0 if arguments.list else parser.error("OUT is missing: a folder to write into")
    try:
        for name in arguments.kinds or [*KINDS, LORA]:
            print(make(name, arguments.out, arguments.seed, arguments.base), flush=True)
    except TinyError as error:
        print(f"tiny: {error}", file=sys.stderr)
        return 2
    return 0


def make(name: str, out: Path, seed: int = 20, base: Path | None = None) -> Path:
    """Write one kind into `out/name`, replacing what is there; return that folder."""
    folder = out / name
    if name != LORA and name not in KINDS:
        raise TinyError(f"there is no kind {name!r}; there are: {', '.join([*KINDS, LORA])}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if name == LORA:
        adapter(folder, seed, json.loads((base / "config.json").read_text()) if base else SIZES)
        return folder
    kind = KINDS[name]
    for file in TOKENIZER_FILES:
        shutil.copyfile(DEMO / file, folder / file)
    kind.files(folder)
    config = kind.config()
    config.dtype = kind.dtype
    with torch.device("meta"):  # only names and shapes are wanted
        loader = AutoModelForImageTextToText if kind.model_type == "llava" else AutoModelForCausalLM
        model = loader.from_config(config)
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    tied = {"lm_head.weight"} if config.get_text_config().tie_word_embeddings else set()
    # save_pretrained is what knows the names that checkpoints of an architecture really have.
    kind.write(stored_names(model, tied, seed, kind.dtype), folder)
    return folder


def stored_names(model: torch.nn.Module, tied: set[str], seed: int, dtype: torch.dtype) -> Tensors:
    """The weights under the names that published checkpoints use, each drawn by its name."""
    from transformers.core_model_loading import revert_weight_conversion

    wanted = {name: weight for name, weight in model.state_dict().items() if name not in tied}
    real = {name: drawn(name, weight, seed).to(dtype) for name, weight in wanted.items()}
    stored = revert_weight_conversion(model, real)
    return {PUBLISHED.sub(r"vision_tower.vision_model.\1", name): stored[name].contiguous() for name in sorted(stored)}


def drawn(name: str, like: Tensor, seed: int) -> Tensor:
    """A tensor of that shape: ones for a norm's scale, nothing for a bias, else normal with a spread that suits it."""
    if name.endswith("bias"):
        return torch.zeros(like.shape)
    if like.dim() < 2:
        return torch.ones(like.shape)
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7]))
    return torch.randn(like.shape, generator=generator) / math.sqrt(like.shape[-1])


def adapter(folder: Path, seed: int, sizes: dict[str, Any]) -> None:
    """A LoRA adapter (peft's file names) for the attention of a model of these sizes."""
    modules = ("q_proj", "v_proj")
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "gqa", "r": LORA_RANK,
              "lora_alpha": 2 * LORA_RANK, "lora_dropout": 0.0, "bias": "none", "target_modules": list(modules),
              "fan_in_fan_out": False, "inference_mode": True, "modules_to_save": None}  # fmt: skip
    _json(folder / "adapter_config.json", config)
    head = sizes["hidden_size"] // sizes["num_attention_heads"]
    sides = {"q_proj": sizes["hidden_size"], "v_proj": head * sizes["num_key_value_heads"]}
    tensors: Tensors = {}
    for layer in range(sizes["num_hidden_layers"]):
        for module in modules:
            stem = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            for part, shape in (("lora_A", (LORA_RANK, sizes["hidden_size"])), ("lora_B", (sides[module], LORA_RANK))):
                name = f"{stem}.{part}.weight"
                tensors[name] = drawn(name, torch.empty(shape), seed).to(torch.bfloat16)
    save_file(tensors, str(folder / "adapter_model.safetensors"), metadata={"format": "pt"})


def _json(path: Path, body: dict[str, Any]) -> None:
    path.write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
