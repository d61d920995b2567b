"""Loads a model by transformers and hands it to `deepspeed.init_inference`."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from transformers import AutoModelForCausalLM, PreTrainedModel

from windlass_deepspeed.engine import group, int8
from windlass_deepspeed.engine.rows import Rows, forward_takes
from windlass_deepspeed.errors import ModelError, UsageError
from windlass_deepspeed.flags import Settings
from windlass_deepspeed.model_files import ModelFiles
from windlass_deepspeed.workers import NUMBER

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that computes."""

    engine: deepspeed.InferenceEngine
    rows: Rows
    context: int
    facts: dict[str, str]
    orders: group.Orders | None = None


def load(settings: Settings, files: ModelFiles) -> Loaded:
    """The model in DeepSpeed's engine, tried once."""
    torch.set_grad_enabled(False)
    length = files.length(settings.max_model_len)
    loaded_in, computed_in = number_formats(settings, files, _can_float16())
    model = _from_directory(settings.model_path, loaded_in)
    _compile_nothing()
    is_narrow = settings.ds_dtype == "int8"
    engine = deepspeed.init_inference(
        model,
        dtype=getattr(torch, computed_in),
        # Injected kernels keep one cache for a whole batch: no request could join or leave it.
        replace_with_kernel_inject=False,
        tensor_parallel={"tp_size": settings.num_gpus},
        # Only the narrow weights go to the GPU.
        keep_module_on_host=is_narrow,
    )
    engine.eval()
    device = torch.device(get_accelerator().current_device_name())
    if is_narrow:
        int8.quantize(engine.module)
        engine.module.to(device)
    if settings.seed is not None:
        torch.manual_seed(settings.seed + int(os.environ.get(NUMBER, "0")))
    orders = group.Orders() if settings.num_gpus > 1 else None
    rows = Rows(engine, device, takes=forward_takes(model), agree=orders.agree if orders else None)
    if not rows.is_plain(token=min(1, model.config.get_text_config().vocab_size - 1)):
        raise ModelError(
            f"models of type {model.config.model_type} keep more than a key-value cache, and this image cannot batch "
            "that; serve the model with the vLLM image"
        )
    facts = {
        "class": f"{type(engine).__module__}.{type(engine).__qualname__}",
        "deepspeed": deepspeed.__version__,
        "device": device.type,
        "dtype": f"int8 weights, {computed_in}" if is_narrow else computed_in,
        "tensor_parallel": str(settings.num_gpus),
    }
    return Loaded(engine, rows, length, facts, orders)


def number_formats(settings: Settings, files: ModelFiles, can_float16: bool) -> tuple[str, str]:
    """What the weights are loaded in, and what DeepSpeed computes in."""
    loaded = files.dtype or "float16" if settings.dtype == "auto" else settings.dtype
    wanted = settings.ds_dtype if settings.ds_dtype not in (None, "int8") else loaded
    if wanted != "float16" or can_float16:
        return loaded, str(wanted)
    if settings.ds_dtype == "float16" or settings.dtype_said:
        raise UsageError("this CPU cannot compute in float16; use --dtype float32 or bfloat16")
    log.info("this CPU cannot compute in float16; float32 is used")
    return "float32", "float32"


def stop_ids(loaded: Loaded) -> frozenset[int]:
    """The tokens by which the model says that an answer is over."""
    said = loaded.engine.module.generation_config.eos_token_id
    return frozenset(said if isinstance(said, list) else [] if said is None else [said])


def _compile_nothing() -> None:
    """DeepSpeed compiles an extension when it is first wanted, and this image has no compiler: offer it none."""
    offered = deepspeed.ops.__compatible_ops__
    offered.update(dict.fromkeys(offered, False))


def _from_directory(path: str, dtype: str) -> PreTrainedModel:
    try:
        return AutoModelForCausalLM.from_pretrained(
            path, dtype=getattr(torch, dtype), trust_remote_code=True, local_files_only=True
        )
    except (OSError, ValueError) as error:
        raise ModelError(f"the model in {path} cannot be loaded: {error}") from error


def _can_float16() -> bool:
    return torch.float16 in get_accelerator().supported_dtypes()
