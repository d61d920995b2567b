"""Weight files as named tensors whose bytes are read when they are asked for. Only `.bin` needs torch."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from windlass.engine.adapters import tensor_file
from windlass.engine.adapters.arithmetic import Bytes
from windlass.engine.adapters.tensor_file import Tensor
from windlass.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor

TORCH_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
                "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
                "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its tensors in order, and a tensor's bytes by name."""

    path: Path
    tensors: tuple[Tensor, ...]
    raw: Callable[[str], Bytes]

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.end - tensor.begin for tensor in self.tensors)


def opened(path: Path) -> Source:
    """Open a weight file; ModelError when it is damaged or of another kind."""
    if path.suffix == ".safetensors":
        return _safetensors(path)
    if path.suffix in (".bin", ".pt"):
        return _torch(path)
    raise ModelError(f"{path} is a {path.suffix} file, into which nothing can be merged; use safetensors weights")


def _safetensors(path: Path) -> Source:
    try:
        tensors = tensor_file.read_header(path)
    except ValueError as error:
        raise ModelError(f"{path} is broken: {error}; copy it again") from error
    places = {tensor.name: slice(tensor.begin, tensor.end) for tensor in tensors}
    content: Bytes = np.memmap(path, np.uint8, mode="r")
    return Source(path, tensors, lambda name: content[places[name]])


def _torch(path: Path) -> Source:
    import torch

    try:
        state = _loaded(torch, path)
        tensors = tuple(_described(name, tensor) for name, tensor in state.items())
    except (RuntimeError, ValueError, KeyError, EOFError, AttributeError, pickle.UnpicklingError) as error:
        raise ModelError(f"{path} is broken: it holds no plain tensors ({error}); copy it again") from error
    return Source(path, tensors, lambda name: _bytes(torch, state[name]))


def _loaded(torch: ModuleType, path: Path) -> dict[str, TorchTensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:  # torch before 1.6 wrote files that cannot be mapped
        state = torch.load(path, map_location="cpu", weights_only=True)
    return dict(state)


def _described(name: str, tensor: TorchTensor) -> Tensor:
    dtype = TORCH_DTYPES[str(tensor.dtype).removeprefix("torch.")]
    return Tensor(name, dtype, tuple(tensor.shape), 0, tensor.numel() * tensor.element_size())


def _bytes(torch: ModuleType, tensor: TorchTensor) -> Bytes:
    raw: Bytes = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return raw
