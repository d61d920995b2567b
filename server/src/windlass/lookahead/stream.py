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


def ring_and_wait(rung: int, answered: int, number: int) -> None:
    """Queue on the current stream: write `number` to the address `rung`, then wait until `answered` has reached it."""
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    word = ctypes.c_uint32(number)
    codes = (
        _driver().cuStreamWriteValue32_v2(stream, ctypes.c_uint64(rung), word, ctypes.c_uint(PLAIN)),
        _driver().cuStreamWaitValue32_v2(stream, ctypes.c_uint64(answered), word, ctypes.c_uint(AT_LEAST)),
    )
    if any(codes):
        raise RuntimeError(
            f"the CUDA driver refuses stream memory operations (codes {codes}); leave --use-lookahead out"
        )
