"""Adds a low-rank product to stored numbers, in float32 and a block of rows at a time, so that memory stays bounded.

Numbers come and go as bytes, because numpy knows no bfloat16: it is the upper half of a float32, rounded to even.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

BLOCK_BYTES = 8 * 1024**2
"""Of float32 that one block of rows takes."""
DTYPES = ("F32", "F16", "BF16")
"""Kinds of numbers that something can be added to."""


@dataclass(frozen=True, slots=True)
class Product:
    """`scale` · `left` · `right`, of shapes (rows, rank) and (rank, columns)."""

    left: Floats
    right: Floats
    scale: float


def to_float32(raw: Bytes, dtype: str) -> Floats:
    """Stored numbers as float32, flat."""
    if dtype == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return raw.view(np.float16 if dtype == "F16" else np.float32).astype(np.float32)


def from_float32(values: Floats, dtype: str) -> Bytes:
    """Numbers as they are stored: rounded to the nearest, ties to even; OverflowError when one is beyond the kind."""
    flat = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    if dtype == "BF16":
        bits = flat.view(np.uint32)
        half = (bits >> np.uint32(16)) & np.uint32(1)
        stored = ((bits + np.uint32(0x7FFF) + half) >> np.uint32(16)).astype(np.uint16)
        is_finite = bool(np.all(stored & np.uint16(0x7F80) != 0x7F80)) and bool(np.isfinite(flat).all())
        raw = stored.view(np.uint8)
    else:
        with np.errstate(over="ignore"):
            numbers = flat.astype(np.float16 if dtype == "F16" else np.float32)
        is_finite, raw = bool(np.isfinite(numbers).all()), numbers.view(np.uint8)
    if not is_finite:
        raise OverflowError
    return raw


def converted(raw: Bytes, dtype: str, stored: str) -> Iterator[Bytes]:
    """The same numbers in another kind, in blocks."""
    for first in range(0, len(raw), BLOCK_BYTES):
        yield from_float32(to_float32(raw[first : first + BLOCK_BYTES], dtype), stored)


def added(raw: Bytes, dtype: str, product: Product, stored: str) -> Iterator[Bytes]:
    """The matrix with the product added, as bytes of kind `stored` in blocks of rows."""
    columns = product.right.shape[1]
    item_bytes = len(raw) // (len(product.left) * columns)
    rows = max(1, BLOCK_BYTES // (columns * 4))
    for first in range(0, len(product.left), rows):
        left = product.left[first : first + rows]
        begin, end = first * columns * item_bytes, (first + len(left)) * columns * item_bytes
        block = to_float32(raw[begin:end], dtype).reshape(len(left), columns)
        block += np.float32(product.scale) * (left @ product.right)
        yield from_float32(block, stored)
