"""Writes lib/sizing/tests/data/smoothquant: a tiny Llama in one file, and smoothquant's own file of it.

Run as `python server/bench/smoothquant_file.py OUT` where torch, transformers and windlass are installed. The second
file is written by the tool's own `make`, so that the tests of sizing read what the tool writes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from windlass.engine.quantization.smoothquant.make import Recipe, make
from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE

WORDS = [f"w{number}" for number in range(64)]


def main() -> None:
    """Write the directory."""
    out = Path(sys.argv[1])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False, dtype="bfloat16",
        bos_token_id=None, eos_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(out)
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(out)
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder, "samples.txt")
        samples.write_text("\n\n".join(" ".join(WORDS[start:] + WORDS[:start]) for start in range(8)))
        make(out, out / SMOOTHQUANT_FILE, Recipe(str(samples), samples=8, length=32), lambda *_: None)


if __name__ == "__main__":
    main()
