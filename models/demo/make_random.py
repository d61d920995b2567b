"""Makes a tiny Qwen2 model directory in seconds: random weights, a real tokenizer, a real chat template.

Why: the demo and the tests need a directory that a real engine loads and serves, on any machine, without a download.
It runs on the standard library alone (no torch, no numpy), and the same seed makes the same bytes. The words that the
model answers mean nothing; everything around them (loading, planning, templates, streaming, usage) is real.

    python models/demo/make_random.py OUT_DIR [--seed N] [--layers N] [--hidden N] [--context N]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import struct
import sys
from array import array
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus.txt")
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = 760
HEAD_DIM = 64
QUERY_HEADS_PER_KV_HEAD = 2
INITIAL_DEVIATION = 0.08

# Qwen2's own way of cutting text before the merges.
PRETOKENIZE = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The same cut as far as the corpus needs it, in the dialect of the standard library.
PRETOKENIZE_CORPUS = re.compile(r"[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}"
    "{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of a Qwen2 decoder with grouped-query attention."""

    layers: int
    hidden: int
    context: int
    vocabulary: int

    @property
    def intermediate(self) -> int:
        """Width of the feed-forward block."""
        return self.hidden * 2

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.hidden // HEAD_DIM

    @property
    def kv_heads(self) -> int:
        """Key and value heads, each shared by a group of query heads."""
        return max(1, self.heads // QUERY_HEADS_PER_KV_HEAD)


# --- tokenizer ---------------------------------------------------------------------------------------------------


def byte_alphabet() -> dict[int, str]:
    """The printable letter that stands for each byte, as GPT-2's byte-level tokenizers have it."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    letters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(256 + len(letters) - len(printable))
    return letters


def merge_pair(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    """The word with each occurrence of the pair joined."""
    joined: list[str] = []
    index = 0
    while index < len(word):
        if word[index : index + 2] == pair:
            joined.append(word[index] + word[index + 1])
            index += 2
        else:
            joined.append(word[index])
            index += 1
    return tuple(joined)


def train_merges(text: str, wanted: int) -> list[tuple[str, str]]:
    """Byte-pair merges by frequency; ties go to the pair that sorts first, so the result is always the same."""
    letters = byte_alphabet()
    words = Counter(tuple(letters[byte] for byte in piece.encode()) for piece in PRETOKENIZE_CORPUS.findall(text))
    merges: list[tuple[str, str]] = []
    while len(merges) < wanted:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:], strict=False):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = Counter({merge_pair(word, best): count for word, count in words.items()})
    return merges


def tokenizer_json(merges: list[tuple[str, str]]) -> dict[str, object]:
    """The content of tokenizer.json: byte-level BPE with the three special tokens of Qwen2 at the end."""
    vocabulary = {letter: index for index, letter in enumerate(sorted(byte_alphabet().values()))}
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    special = [
        {
            "id": len(vocabulary) + index,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, content in enumerate(SPECIAL_TOKENS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PRETOKENIZE}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary,
            "merges": [f"{left} {right}" for left, right in merges],
        },
    }


def tokenizer_config(context: int) -> dict[str, object]:
    """The content of tokenizer_config.json, with the chat template of the Qwen family."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "chat_template": CHAT_TEMPLATE,
    }


# --- weights -----------------------------------------------------------------------------------------------------


def bfloat16(values: list[float]) -> bytes:
    """The values as bfloat16: the upper half of each float32."""
    halves = array("H", array("f", values).tobytes())
    if sys.byteorder == "big":
        halves.byteswap()
        return halves[0::2].tobytes()
    return halves[1::2].tobytes()


def random_matrix(rng: random.Random, rows: int, columns: int, deviation: float) -> bytes:
    """Uniform values with the given standard deviation."""
    span, draw = 2 * deviation * math.sqrt(3), rng.random
    return bfloat16([(draw() - 0.5) * span for _ in range(rows * columns)])


def output_head(rng: random.Random, shape: Shape, speakable: list[bool]) -> bytes:
    """A random head whose rows are zero for tokens that are no readable text.

    A zero row gives the logit 0, which some random row always beats: greedy answers are made of words, never end
    early, and hold no broken UTF-8.
    """
    blank = bytes(2 * shape.hidden)
    rows = (random_matrix(rng, 1, shape.hidden, INITIAL_DEVIATION) if says else blank for says in speakable)
    return b"".join(rows)


def weights(shape: Shape, seed: int, speakable: list[bool]) -> dict[str, tuple[list[int], bytes]]:
    """Every tensor of the model by name: its shape and its bfloat16 bytes."""
    rng = random.Random(seed)
    hidden, kv = shape.hidden, shape.kv_heads * HEAD_DIM
    ones, tensors = bfloat16([1.0] * hidden), {}

    def matrix(name: str, rows: int, columns: int) -> None:
        tensors[f"{name}.weight"] = ([rows, columns], random_matrix(rng, rows, columns, INITIAL_DEVIATION))

    matrix("model.embed_tokens", shape.vocabulary, hidden)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        for name, rows in (("q_proj", hidden), ("k_proj", kv), ("v_proj", kv)):
            matrix(f"{prefix}.self_attn.{name}", rows, hidden)
            tensors[f"{prefix}.self_attn.{name}.bias"] = ([rows], bytes(2 * rows))
        matrix(f"{prefix}.self_attn.o_proj", hidden, hidden)
        matrix(f"{prefix}.mlp.gate_proj", shape.intermediate, hidden)
        matrix(f"{prefix}.mlp.up_proj", shape.intermediate, hidden)
        matrix(f"{prefix}.mlp.down_proj", hidden, shape.intermediate)
        tensors[f"{prefix}.input_layernorm.weight"] = ([hidden], ones)
        tensors[f"{prefix}.post_attention_layernorm.weight"] = ([hidden], ones)
    tensors["model.norm.weight"] = ([hidden], ones)
    tensors["lm_head.weight"] = ([shape.vocabulary, hidden], output_head(rng, shape, speakable))
    return tensors


def safetensors(tensors: dict[str, tuple[list[int], bytes]]) -> bytes:
    """The tensors as one safetensors file: header length, JSON header, bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (shape, content) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(content)]}
        offset += len(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(content for _, content in tensors.values())


# --- the directory -----------------------------------------------------------------------------------------------


def model_config(shape: Shape) -> dict[str, object]:
    """The content of config.json."""
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "attention_dropout": 0.0,
        "bos_token_id": shape.vocabulary - len(SPECIAL_TOKENS),
        "eos_token_id": shape.vocabulary - 1,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "initializer_range": INITIAL_DEVIATION,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.context,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": shape.vocabulary,
    }


def generation_config(vocabulary: int) -> dict[str, object]:
    """The content of generation_config.json; greedy by default, so that two answers can be compared."""
    return {
        "eos_token_id": [vocabulary - 1, vocabulary - 3],
        "pad_token_id": vocabulary - 3,
        "do_sample": False,
        "temperature": 0.0,
        "top_p": 1.0,
    }


def is_speakable(token: str) -> bool:
    """True for a token that is plain ASCII text without control characters (a space is written as Ġ)."""
    return all(33 <= ord(letter) <= 126 or letter == "Ġ" for letter in token)


def write_model(out: Path, *, seed: int, layers: int, hidden: int, context: int) -> int:
    """Write the model directory; returns the number of parameters."""
    tokenizer = tokenizer_json(train_merges(CORPUS.read_text(encoding="utf-8"), MERGES))
    vocabulary = list(tokenizer["model"]["vocab"])  # type: ignore[index]
    speakable = [is_speakable(token) for token in vocabulary] + [False] * len(SPECIAL_TOKENS)
    shape = Shape(layers, hidden, context, len(speakable))
    tensors = weights(shape, seed, speakable)
    out.mkdir(parents=True, exist_ok=True)
    documents = {
        "config.json": model_config(shape),
        "generation_config.json": generation_config(shape.vocabulary),
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": tokenizer_config(context),
    }
    for name, content in documents.items():
        (out / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (out / "model.safetensors").write_bytes(safetensors(tensors))
    return sum(math.prod(shape) for shape, _ in tensors.values())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Make a tiny random Qwen2 model directory.")
    parser.add_argument("out", type=Path, help="directory to write (made when absent)")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256, help=f"hidden size, a multiple of {2 * HEAD_DIM}")
    parser.add_argument("--context", type=int, default=4096, help="longest context in tokens")
    args = parser.parse_args()
    if args.hidden <= 0 or args.hidden % (2 * HEAD_DIM):
        parser.error(f"--hidden {args.hidden} is not a multiple of {2 * HEAD_DIM}; try --hidden 256")
    count = write_model(args.out, seed=args.seed, layers=args.layers, hidden=args.hidden, context=args.context)
    print(f"{args.out}: Qwen2, {count:,} parameters, seed {args.seed}")


if __name__ == "__main__":
    main()
