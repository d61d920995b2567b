"""The safetensors format: what a file's header says, and a header for tensors that are still to be written.

A file is 8 bytes of length, that many bytes of JSON, then the tensors one after another. Reads headers only, with the
standard library: `read` and `names` look at adapters before anything heavy is imported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from windlass_sizing.files import documents

LENGTH_BYTES = 8
HEADER_BYTES_MAX = 100 * 1024**2
"""As the format's own library reads at most."""
ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I64": 8, "I32": 4,
              "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """Name, kind of number and shape; `begin` and `end` are bytes from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int = 0
    end: int = 0

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


def read_header(path: Path) -> tuple[Tensor, ...]:
    """The tensors in the order of their bytes; ValueError with what is wrong when the file is damaged or cut short."""
    size = path.stat().st_size
    with documents.opened(path) as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        if size < LENGTH_BYTES or length > min(size, HEADER_BYTES_MAX):
            raise ValueError("it is no safetensors file")
        try:
            header = documents.parse(file.read(length))
        except ValueError:
            raise ValueError("it is no safetensors file") from None
    start = LENGTH_BYTES + length
    try:
        tensors = [_tensor(name, row, start) for name, row in header.items() if name != "__metadata__"]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError("its header is damaged") from None
    if wanted := max([tensor.end for tensor in tensors], default=start) - size:
        raise ValueError(f"it is cut short by {wanted} bytes" if wanted > 0 else f"it has {-wanted} bytes too many")
    return tuple(sorted(tensors, key=lambda tensor: (tensor.begin, tensor.name)))


def _tensor(name: str, row: dict[str, object], start: int) -> Tensor:
    begin, end = row["data_offsets"]  # type: ignore[misc]
    tensor = Tensor(name, str(row["dtype"]), tuple(row["shape"]), start + begin, start + end)  # type: ignore[arg-type, has-type]
    if tensor.dtype in ITEM_BYTES and tensor.size != tensor.end - tensor.begin:
        raise ValueError(name)
    return tensor


def header(tensors: Iterable[Tensor]) -> bytes:
    """The first bytes of a file that will hold these tensors in this order."""
    body: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for tensor in tensors:
        size = tensor.end - tensor.begin
        body[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(body, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text
