"""How many pixels the images inside a request declare, before the engine decodes one. Pure but for Pillow's import.

A compressed image may hold very many pixels in few bytes. The engine bounds each image alone
(`VLLM_MAX_IMAGE_PIXELS`), so the sum over a request is bounded here. Pillow reads the headers, as
the engine's own loader does. Where Pillow is not installed, nothing decodes images.
"""

from __future__ import annotations

import binascii
import sys
from collections.abc import Iterable, Iterator
from io import BytesIO

from windlass.front.refusal import Refusal

READS_MAX = 65_536
"""Reads for the headers of a request's images, about 0.1 s; a photo takes some tens."""
LOADER = "vllm.multimodal.image"
"""The engine's module whose `ALLOWED_IMAGE_FORMATS` are the formats that it opens."""


class _ReadsExceededError(Exception):
    """The headers take more reads than a request may have."""


class _Header(BytesIO):
    """An image whose reads count towards those of the request."""

    def __init__(self, raw: bytes, reads: Iterator[int]) -> None:
        super().__init__(raw)
        self._reads = reads

    def read(self, size: int | None = -1, /) -> bytes:
        """Read, unless the request has no read left."""
        if next(self._reads, None) is None:
            raise _ReadsExceededError
        return super().read(size)


def check(addresses: Iterable[tuple[str, str]], most: int) -> None:
    """Refuse images in `data:` URLs that declare more pixels together; each address comes with its field."""
    pixels, reads = 0, iter(range(READS_MAX))
    for name, address in addresses:
        for image in _payloads(address):
            try:
                pixels += _pixels(_Header(image, reads), most)
            except _ReadsExceededError:
                message = f"{name} holds images with headers of too many parts; send them as plain PNG or JPEG"
                raise Refusal(413, message, param=name) from None
            if pixels > most:
                message = f"{name} holds images of more than {most} pixels together; send smaller or fewer images"
                raise Refusal(413, message, param=name)


def _payloads(address: str) -> Iterator[bytes]:
    """Decoded contents of a `data:` URL, whatever type it names: several in a video of JPEG frames."""
    if address[:5].lower() != "data:":
        return
    for text in address.partition(",")[2].split(","):
        try:
            yield binascii.a2b_base64(text)
        except ValueError:  # the engine refuses it
            continue


def _pixels(header: _Header, most: int) -> int:
    """Pixels that an image declares; 0 for what is no image."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        return 0
    try:
        with Image.open(header, formats=getattr(sys.modules.get(LOADER), "ALLOWED_IMAGE_FORMATS", None)) as image:
            return image.width * image.height
    except Image.DecompressionBombError:
        return most + 1
    except (UnidentifiedImageError, OSError, ValueError):  # the engine's loader fails on it in the same way
        return 0
