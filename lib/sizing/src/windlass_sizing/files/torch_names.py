"""The names of the tensors in a file of `torch.save`, from its pickle, of which nothing is run or built.

`tensor_names.py` calls it. The pickle moves values on a stack; here only texts and the keys of its outermost mapping
are kept, every other value is a blank. torch stores the entries of its archives as they are, so that nothing is
decompressed.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from windlass_sizing.files import documents

BYTE_COST = 8  # of a pickle: a byte of it takes as long as so many of a header
READ_BYTES_MAX = 16 * documents.MIB  # of the pickle, and of the archive's list; published heads have some KiB
END_BYTES_MAX = 128 * 1024  # of an archive: its end record and a comment have less than 64 KiB
OPCODES_MAX = 1_500_000  # about 32 for each tensor; some seconds
PLAIN = {
    "collections": ("OrderedDict", "Counter"),
    "_codecs": ("encode",),
    **dict.fromkeys(("builtins", "__builtin__"), ("bytearray", "set", "complex")),
    "torch.nn.parameter": ("Parameter",),
}
"""Globals that the engine's reader of pickles takes (`torch._weights_only_unpickler`), by their modules."""
TENSORS = tuple(
    f"torch{part}"
    for part in ("", ".cuda", ".sparse", ".cuda.sparse", ".storage", ".serialization", "._utils", "._tensor")
)
"""Modules of what tensors are made of; their few other names are left to the engine."""
LATER = ("torch.distributed", "torch.nested", "torch._dynamo", "torchao")
"""Modules that allow classes of their own where the engine has imported them."""
KNOWN = frozenset(
    "PROTO STOP GLOBAL NEWOBJ REDUCE BUILD APPEND APPENDS SETITEM SETITEMS MARK TUPLE TUPLE1 TUPLE2 TUPLE3 "
    "NONE NEWFALSE NEWTRUE EMPTY_TUPLE EMPTY_LIST EMPTY_DICT EMPTY_SET BININT BININT1 BININT2 BINFLOAT "
    "BINUNICODE SHORT_BINSTRING BINPERSID BINGET LONG_BINGET BINPUT LONG_BINPUT LONG1".split()
)
"""Opcodes that it takes."""
MAPPINGS = ("collections OrderedDict", "collections Counter")
TEXTS = ("BINUNICODE", "GLOBAL")
PUTS, GETS = ("BINPUT", "LONG_BINPUT"), ("BINGET", "LONG_BINGET")
FILLED = ("SETITEM", "SETITEMS", "APPEND", "APPENDS", "BUILD")
"""Opcodes that leave the first value that they take."""


class NotPlainError(ValueError):
    """The pickle holds more than tensors and their names, and the engine does not load it."""


class _Mapping(set[str]):
    """The keys of the outermost mapping."""


class _Bounded:
    """A file of which no single read takes more memory than allowed, as the list of an archive would."""

    def __init__(self, content: BinaryIO) -> None:
        self._content = content
        self.seek, self.tell, self.seekable = content.seek, content.tell, content.seekable

    def read(self, size: int = -1) -> bytes:
        if not -1 <= size <= READ_BYTES_MAX:
            raise ValueError("it is no archive of torch")
        return self._content.read(size if size >= 0 else END_BYTES_MAX)


def torch_names(file: Path, budget: documents.Budget) -> frozenset[str]:
    """The names; NotPlainError where the engine refuses the file, another ValueError where it does not say them."""
    with documents.opened(file) as content, zipfile.ZipFile(_Bounded(content)) as archive:
        entry = next((entry for entry in archive.infolist() if entry.filename.endswith("/data.pkl")), None)
        if entry is None or entry.compress_type != zipfile.ZIP_STORED or entry.file_size > READ_BYTES_MAX:
            raise ValueError("it holds no pickle of torch")
        budget.take(BYTE_COST * entry.file_size)
        return _keys(archive.read(entry))


def _keys(content: bytes) -> frozenset[str]:
    """The keys of the mapping that the pickle is."""
    stack, memo = list[object](), dict[object, object]()
    for number, (code, argument, _) in enumerate(pickletools.genops(content)):
        if number > OPCODES_MAX:
            raise ValueError("it holds too many values")
        _must_be_plain(code.name, argument)
        if code.name in PUTS:
            if isinstance(stack[-1], str):
                memo[argument] = stack[-1]
        elif code.name in GETS:
            stack.append(memo.get(argument))
        elif code.name != "STOP":
            taken = _taken(stack, code.stack_before)
            stack += _left(code, argument, taken, is_outermost=not stack)
    if len(stack) != 1 or not isinstance(stack[0], _Mapping):
        raise ValueError("it is no mapping of tensors")
    return frozenset(stack[0])


def _must_be_plain(name: str, argument: object) -> None:
    if name not in KNOWN:
        raise NotPlainError(f"pickle's {name}")
    if name != "GLOBAL":
        return
    module, _, global_name = str(argument).partition(" ")
    if global_name not in PLAIN.get(module, ()) and module not in TENSORS and not module.startswith(LATER):
        raise NotPlainError(f"{module}.{global_name}")


def _taken(stack: list[object], before: Sequence[object]) -> list[object]:
    """Take an opcode's values off the stack, without the mark; IndexError where there is too little."""
    taken, counted = list[object](), len(before)
    if pickletools.markobject in before:
        while (value := stack.pop()) is not pickletools.markobject:
            taken.append(value)
        counted = before.index(pickletools.markobject)
    taken += [stack.pop() for _ in range(counted)]
    return taken[::-1]


def _left(code: pickletools.OpcodeInfo, argument: object, taken: list[Any], *, is_outermost: bool) -> list[object]:
    """Values that an opcode puts onto the stack: a text, the mark, the outermost mapping, a blank for all others."""
    if code.name in TEXTS:
        return [argument]
    if code.name == "MARK":
        return [pickletools.markobject]
    if code.name in FILLED:
        if isinstance(taken[0], _Mapping) and code.name in ("SETITEM", "SETITEMS"):
            taken[0].update(str(key) for key in taken[1::2])
        return [taken[0]]
    is_mapping = code.name == "EMPTY_DICT" or (code.name == "REDUCE" and taken[0] in MAPPINGS)
    return [_Mapping() if is_mapping and is_outermost else None for _ in code.stack_after]
