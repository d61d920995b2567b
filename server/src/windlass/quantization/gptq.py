"""`windlass quantize gptq`: GPTQ with 4 bits, groups of 128 and no reordering, through llm-compressor.

llm-compressor needs another compressed-tensors than the engine does, so it lives in an environment of its own; the
engine reads what it writes without a flag.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from windlass.errors import ModelError, UsageError

if TYPE_CHECKING:
    import torch

INSTALL = "pip install 'windlass-server[gptq]' in an environment without the engine"
BITS, GROUP = 4, 128


def make(model: Path, target: Path, data: Path, samples: int, length: int, seed: int) -> None:
    """Write the quantized model directory `target`; llm-compressor prints its own progress."""
    import torch

    try:
        from llmcompressor import oneshot  # type: ignore[import-not-found]  # in an environment of its own
        from llmcompressor.modifiers.gptq import GPTQModifier  # type: ignore[import-not-found]
    except ModuleNotFoundError as error:
        raise UsageError(f"quantize gptq needs llm-compressor, and {error.name} is not installed; {INSTALL}") from error
    from torch.utils.data import DataLoader
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from windlass.quantization.smoothquant.calibrate import samples_of

    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    if bad := _odd(network):
        raise ModelError(f"{model} has {bad}, which no group of {GROUP} divides; serve it with ifq_nf4 instead")
    rows = [torch.tensor([tokens]) for tokens in samples_of(data, tokenizer, samples, length, seed)]
    batches = [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in rows]
    oneshot(
        model=network,
        dataset=DataLoader(batches, batch_size=None),
        recipe=GPTQModifier(targets="Linear", scheme="W4A16", ignore=["lm_head"], actorder=None),
        max_seq_length=length,
        num_calibration_samples=len(rows),
    )
    network.save_pretrained(target, save_compressed=True)
    tokenizer.save_pretrained(target)
    for file in target.glob("*.safetensors"):
        file.chmod(0o644)  # the server may be another user


def _odd(network: torch.nn.Module) -> str:
    """The first linear layer whose inputs are no whole groups."""
    import torch

    for name, layer in network.named_modules():
        if isinstance(layer, torch.nn.Linear) and name != "lm_head" and layer.in_features % GROUP:
            return f"{name} with {layer.in_features} inputs"
    return ""
