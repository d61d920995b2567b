"""Loads a model by transformers and hands it to `deepspeed.init_inference`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from windlass_deepspeed import templates
from windlass_deepspeed.engine import group, int8
from windlass_deepspeed.engine.rows import Rows, forward_takes
from windlass_deepspeed.errors import ModelError, RequestError, UsageError
from windlass_deepspeed.flags import Settings
from windlass_deepspeed.model_files import ModelFiles

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that computes."""

    engine: deepspeed.InferenceEngine
    rows: Rows
    context: int
    facts: dict[str, str]
    orders: group.Orders | None = None


class ModelTokenizer:
    """A `Tokenizer` from the model directory, with the chosen chat template."""

    def __init__(self, inner: PreTrainedTokenizerBase, template: templates.Template | None) -> None:
        self._inner, self._template = inner, template
        own = inner.eos_token_id
        self.stop_ids = frozenset(() if own is None else (own,)) | frozenset(template.stop_ids if template else ())

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """A conversation as the model wants it, ready for its answer."""
        if self._template is None:
            raise RequestError("this model has no chat template; set CONV_TEMPLATE, or ask /v1/completions")
        text = self._inner.apply_chat_template(
            list(messages), chat_template=self._template.text or None, add_generation_prompt=True, tokenize=False
        )
        return self.encode(text, special=False)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Plain text; templates bring their own special tokens."""
        tokens: list[int] = self._inner.encode(text, add_special_tokens=special)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text without special tokens."""
        text: str = self._inner.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def load(settings: Settings, files: ModelFiles) -> Loaded:
    """The model in DeepSpeed's engine, tried once."""
    torch.set_grad_enabled(False)
    length = files.length(settings.max_model_len)
    loaded_in, computed_in = number_formats(settings, files, _can_float16())
    model = _from_directory(settings.model_path, loaded_in)
    _compile_nothing()
    narrow = int8.quantize(model) if settings.ds_dtype == "int8" else 0
    engine = deepspeed.init_inference(
        model,
        dtype=getattr(torch, computed_in),
        # Injected kernels keep one cache for a whole batch: no request could join or leave it.
        replace_with_kernel_inject=False,
        tensor_parallel={"tp_size": settings.num_gpus},
    )
    engine.eval()
    if settings.seed is not None:
        torch.manual_seed(settings.seed)
    orders = group.Orders() if settings.num_gpus > 1 else None
    device = torch.device(get_accelerator().current_device_name())
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
        "dtype": f"int8 weights, {computed_in}" if narrow else computed_in,
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


def tokenizer(settings: Settings, files: ModelFiles, model_id: str) -> ModelTokenizer:
    """The directory's tokenizer with the template that is said, its own, or the one of its name."""
    try:
        inner = AutoTokenizer.from_pretrained(settings.model_path, trust_remote_code=True)
    except (OSError, ValueError) as error:
        raise ModelError(f"the tokenizer in {settings.model_path} cannot be loaded: {error}") from error
    said = settings.conv_template or files.conv_template
    return ModelTokenizer(inner, templates.choose(said, model_id, own=bool(inner.chat_template)))


def stop_ids(loaded: Loaded, tokens: ModelTokenizer) -> frozenset[int]:
    """Every token that ends an answer."""
    said = loaded.engine.module.generation_config.eos_token_id
    more = said if isinstance(said, list) else [] if said is None else [said]
    return tokens.stop_ids | frozenset(more)


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
