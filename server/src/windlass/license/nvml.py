"""The GPUs as the driver's library NVML lists them, for containers without `nvidia-smi`. Touches no GPU memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from windlass.license.model import Gpu

LIBRARY = "libnvidia-ml.so.1"
TEXT_BYTES = 96  # NVML's own bound of names and UUIDs
MIG, MIG_ON = "MIG", 1


def gpus() -> tuple[Gpu, ...]:
    """All GPUs of this container, a card that is cut into MIG slices by its slices; none without a driver."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return ()
    return read(library)


def read(library: Any) -> tuple[Gpu, ...]:  # noqa: ANN401  a C library has whatever functions it has
    """The GPUs that a loaded NVML tells; none when it cannot be started."""
    if library.nvmlInit_v2():
        return ()
    try:
        return tuple(_gpus(library))
    finally:
        library.nvmlShutdown()


def _gpus(library: Any) -> Iterator[Gpu]:  # noqa: ANN401  as above
    count = ctypes.c_uint()
    library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for number in range(count.value):
        card = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(number), ctypes.byref(card)):
            continue
        name = _text(library.nvmlDeviceGetName, card)
        slices = tuple(_slices(library, card, name))
        yield from slices or (Gpu(_text(library.nvmlDeviceGetUUID, card), name),)


def _slices(library: Any, card: ctypes.c_void_p, name: str) -> Iterator[Gpu]:  # noqa: ANN401  as above
    mode, planned, most = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    refused = library.nvmlDeviceGetMigMode(card, ctypes.byref(mode), ctypes.byref(planned))
    if refused or mode.value != MIG_ON or library.nvmlDeviceGetMaxMigDeviceCount(card, ctypes.byref(most)):
        return
    for number in range(most.value):
        part = ctypes.c_void_p()
        if not library.nvmlDeviceGetMigDeviceHandleByIndex(card, ctypes.c_uint(number), ctypes.byref(part)):
            said = _text(
                library.nvmlDeviceGetName, part
            )  # the card's name, MIG and the profile; older drivers: the card's
            yield Gpu(_text(library.nvmlDeviceGetUUID, part), said if MIG in said else f"{name} {MIG}")


def _text(function: Any, device: ctypes.c_void_p) -> str:  # noqa: ANN401  as above
    buffer = ctypes.create_string_buffer(TEXT_BYTES)
    function(device, buffer, ctypes.c_uint(TEXT_BYTES))
    return buffer.value.decode(errors="replace")
