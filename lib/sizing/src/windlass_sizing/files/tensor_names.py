"""The names of a checkpoint's tensors, from its headers alone: what heads that draft and adapters are judged by.

`checkpoint.py` asks for a draft directory, `adapters.py` for adapters, and the server's probes for both. No tensor is
read, and no pickle is run.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from windlass_sizing.files import documents
from windlass_sizing.files.torch_names import NotPlainError, torch_names

TORCHS = (".bin", ".pt")
AGAIN = "save it again as safetensors"
UNREADABLE = (
    *(ArithmeticError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
)


def tensor_names(files: Iterable[Path]) -> frozenset[str] | None:
    """The names; None where a file does not say them: it is not whole, or in a format that torch alone reads.

    None, too, where all files together have more of them than anybody reads.
    """
    try:
        budget = documents.Budget()
        return frozenset(name for file in files for name in _names(file, budget))
    except UNREADABLE:
        return None


def adapter_tensors(file: Path, budget: documents.Budget | None = None) -> frozenset[str] | str:
    """The names in an adapter's file, none where it does not say them; or why the engine refuses it."""
    try:
        return frozenset(_names(file, budget or documents.Budget()))
    except NotPlainError as error:
        return f"holds more than tensors ({file.name}: {str(error)[:80]}), which the engine does not load; {AGAIN}"
    except UNREADABLE:
        return frozenset()


def _names(file: Path, budget: documents.Budget) -> Iterable[str]:
    """None of a GGUF file: the engine has no head in that format."""
    if file.suffix == ".safetensors":
        return _of_safetensors(file, budget)
    return torch_names(file, budget) if file.suffix in TORCHS else ()


def _of_safetensors(file: Path, budget: documents.Budget) -> Iterator[str]:
    with documents.opened(file) as content:
        length = int.from_bytes(content.read(8), "little")
        if length > documents.HEADER_BYTES_MAX:
            raise ValueError("its header's length is impossible")
        budget.take(length)
        header = documents.parse(content.read(length))
    yield from (str(name) for name in header if name != "__metadata__")
