"""Stream memory operations of the CUDA driver: a stream writes a word of host memory, and waits for another.

They cost some microseconds where a host function costs an interrupt. Called through the driver's C interface, since
torch has no word for them.
"""

from __future__ import annotations

import ctypes
from functools import cache

import torch

AT_LEAST = 0
"""CU_STREAM_WAIT_VALUE_GEQ: by the sign of the difference, so numbers may wrap."""
PLAIN = 0
"""CU_STREAM_WRITE_VALUE_DEFAULT: after all earlier writes of the stream can be seen."""


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def ring(rung: int, number: int) -> None:
    """Queue on the current stream: write `number` to the address `rung`."""
    _checked(
        _driver().cuStreamWriteValue32_v2(
            _stream(), ctypes.c_uint64(rung), ctypes.c_uint32(number), ctypes.c_uint(PLAIN)
        )
    )


def wait(answered: int, number: int) -> None:
    """Queue on the current stream: wait until the address `answered` has reached `number`."""
    _checked(
        _driver().cuStreamWaitValue32_v2(
            _stream(), ctypes.c_uint64(answered), ctypes.c_uint32(number), ctypes.c_uint(AT_LEAST)
        )
    )


def _stream() -> ctypes.c_void_p:
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def _checked(code: int) -> None:
    if code:
        raise RuntimeError(f"the CUDA driver refuses stream memory operations (code {code}); leave --use-lookahead out")
