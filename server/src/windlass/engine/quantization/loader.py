"""Our loader for vLLM: the checkpoint's own files, smoothquant's file where that is the method, kept weights if whole.

It reads as vLLM's default loader does; it knows beside which files are what, and keeps what was quantized.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import vllm
from safetensors import safe_open
from vllm.config import ModelConfig, VllmConfig
from vllm.config.load import LoadConfig
from vllm.distributed import get_pp_group, get_tp_group
from vllm.logger import init_logger
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
from vllm.model_executor.model_loader.reload import finalize_layerwise_processing
from windlass_sizing.files.weight_files import SAFETENSORS
from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE

from windlass.engine.adapters import tensor_file
from windlass.engine.quantization import keep
from windlass.engine.quantization.config import OnlineConfig, head_is_quantized
from windlass.engine.quantization.methods import METHODS

GIB = 2**30
_KINDS = {torch.uint8: "U8", torch.int8: "I8", torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32"}
_say = init_logger("vllm.windlass")


class Loader(DefaultModelLoader):  # type: ignore[misc]  # the engine has no types here
    """`--load-format windlass`."""

    def __init__(self, load_config: LoadConfig) -> None:
        super().__init__(replace(load_config, load_format="auto"))
        self._is_smoothquant = False
        self._kept: keep.Place | None = None
        self._source: dict[str, object] = {}
        self._aliases: dict[str, str] | None = None

    def create_model(self, vllm_config: VllmConfig, model_config: ModelConfig, prefix: str = "") -> torch.nn.Module:
        """As the default; layers are made ready for kept weights when there are some."""
        self._is_smoothquant = model_config.quantization == METHODS["smoothquant"].engine
        if self._is_smoothquant:
            self.enable_weights_track = True  # a tensor that the file lacks is told
        config = vllm_config.quant_config
        if isinstance(config, OnlineConfig) and model_config is vllm_config.model_config:
            self._look(model_config)
            config.is_kept = self._aliases is not None
        return super().create_model(vllm_config, model_config, prefix)

    def load_weights(self, model: torch.nn.Module, model_config: ModelConfig) -> None:
        """From kept weights; else from the checkpoint, and then keep them."""
        begun = time.perf_counter()
        if self._kept and self._aliases is not None:
            size = _fill(model.state_dict(), self._kept, self._aliases)
            took = time.perf_counter() - begun
            _say.info("Quantized weights: %.3f GiB of %s in %.2f s", size / GIB, self._kept.file, took)
            return
        super().load_weights(model, model_config)
        if self._kept:
            finalize_layerwise_processing(model, model_config)  # the layers that had to wait
            self._keep(model, self._kept)

    def _prepare_weights(self, model_name_or_path: str, *words: Any, **more: Any) -> tuple[str, list[str], bool, str]:  # noqa: ANN401  vLLM's own
        ours = Path(model_name_or_path, SMOOTHQUANT_FILE)
        if self._is_smoothquant and ours.is_file():
            # Not by way of the engine: an index that is left of files that are gone would leave it no file at all.
            return model_name_or_path, [str(ours)], True, SAFETENSORS.index
        folder, found, is_safe, index = super()._prepare_weights(model_name_or_path, *words, **more)
        if self._is_smoothquant:
            return folder, [str(Path(folder, SMOOTHQUANT_FILE))], True, index
        return folder, [file for file in found if Path(file).name != SMOOTHQUANT_FILE], is_safe, index

    def _look(self, model_config: ModelConfig) -> None:
        model, made = Path(model_config.model), _made(model_config)
        self._kept = keep.place(os.environ, model, made) if model.is_dir() else None
        if self._kept is None:
            return
        try:
            self._source = keep.source(model, made)
            self._aliases = keep.aliases(self._kept, self._source)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            _say.warning("Kept weights %s are ignored and made again: the file %s", self._kept.file, error)

    def _keep(self, model: torch.nn.Module, kept: keep.Place) -> None:
        begun = time.perf_counter()
        tensors, others = _distinct(model.state_dict())
        try:
            size = keep.publish(kept, _pieces(tensors), self._source, others)
        except (OSError, KeyError) as error:
            _say.warning("Quantized weights are not kept: %s; set %s=off, or to a directory that can be written",
                         error, keep.VARIABLE)  # fmt: skip
            return
        took = time.perf_counter() - begun
        _say.info("Quantized weights: %.3f GiB kept in %s in %.2f s", size / GIB, kept.file, took)


def _made(model_config: ModelConfig) -> keep.Made:
    tp, pp = get_tp_group(), get_pp_group()
    return keep.Made(
        method=str(model_config.quantization),
        dtype=str(model_config.dtype).removeprefix("torch."),
        layout="tiles" if torch.cuda.is_available() else "rows",
        head=head_is_quantized(model_config),
        rank=f"{tp.rank_in_group}/{tp.world_size} {pp.rank_in_group}/{pp.world_size}",
        engine=vllm.__version__,
    )


def _distinct(state: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Tensors once each, and the other names of those that have several."""
    firsts: dict[tuple[object, ...], str] = {}
    others: dict[str, str] = {}
    for name, tensor in state.items():
        same = (tensor.data_ptr(), tensor.shape, tensor.dtype, tensor.device)
        first = firsts.setdefault(same, name) if tensor.numel() else name
        if first != name:
            others[name] = first
    return {name: tensor for name, tensor in state.items() if name not in others}, others


def _pieces(tensors: dict[str, torch.Tensor]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file; of the tensors one at a time is in host memory."""
    rows = [
        tensor_file.Tensor(name, _KINDS[tensor.dtype], tuple(tensor.shape), 0, tensor.nbytes)
        for name, tensor in tensors.items()
    ]
    yield tensor_file.header(rows)
    for tensor in tensors.values():
        yield memoryview(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


@torch.no_grad()  # type: ignore[untyped-decorator]
def _fill(state: dict[str, torch.Tensor], kept: keep.Place, aliases: dict[str, str]) -> int:
    """Copy the kept tensors into a model's own; bytes read."""
    with safe_open(kept.file, framework="pt") as file:
        names = set(file.keys())
        for name, tensor in state.items():
            source = aliases.get(name, name)
            found = file.get_tensor(source) if source in names else None
            if found is None or found.shape != tensor.shape or found.dtype != tensor.dtype:
                kept.record.unlink()
                raise RuntimeError(f"{kept.file} has no {name} like the model's; it was given up, start again")
            tensor.copy_(found)
    return kept.file.stat().st_size
