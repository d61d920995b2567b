"""The names of a checkpoint's tensors, from its headers alone: what a head that drafts is told by.

`checkpoint.py` asks for a draft directory, and the server's probe does. No tensor is read, no pickle is run, and
nothing is decompressed: torch stores the entries of its archives as they are.
"""

from __future__ import annotations

import pickletools
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from windlass_sizing.files import documents

PICKLE_BYTES_MAX = 16 * documents.MIB  # a pickle of names and shapes alone; published heads have some KiB
TEXTS = ("SHORT_BINUNICODE", "BINUNICODE", "UNICODE")
UNREADABLE = (
    *(ArithmeticError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
)


def tensor_names(files: Iterable[Path]) -> frozenset[str] | None:
    """The names; None where a file does not say them: it is not whole, or in a format that torch alone reads."""
    try:
        return frozenset(name for file in files for name in _names(file))
    except UNREADABLE:
        return None


def _names(file: Path) -> Iterator[str]:
    """None of a GGUF file: the engine has no head in that format."""
    if file.suffix == ".safetensors":
        yield from _of_safetensors(file)
    elif file.suffix == ".bin":
        yield from _of_pickle(file)


def _of_safetensors(file: Path) -> Iterator[str]:
    with documents.opened(file) as content:
        length = int.from_bytes(content.read(8), "little")
        if length > documents.HEADER_BYTES_MAX:
            raise ValueError("its header's length is impossible")
        header = documents.parse(content.read(length))
    yield from (str(name) for name in header if name != "__metadata__")


def _of_pickle(file: Path) -> Iterator[str]:
    """Every text of the pickle that torch writes: the tensors' names are among them."""
    with documents.opened(file) as content, zipfile.ZipFile(content) as archive:
        entry = next((entry for entry in archive.infolist() if entry.filename.endswith("/data.pkl")), None)
        if entry is None or entry.compress_type != zipfile.ZIP_STORED or entry.file_size > PICKLE_BYTES_MAX:
            raise ValueError("it holds no pickle of torch")
        for code, argument, _ in pickletools.genops(archive.read(entry)):
            if code.name in TEXTS and isinstance(argument, str):
                yield argument
