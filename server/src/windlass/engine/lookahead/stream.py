"""A stream memory operation of the CUDA driver: a stream waits for a word of host memory.

It costs some microseconds where a host function costs an interrupt. Called through the driver's C interface, since
torch has no word for it.
"""

from __future__ import annotations

import ctypes
from functools import cache

import torch

AT_LEAST = 0
"""CU_STREAM_WAIT_VALUE_GEQ: by the sign of the difference, so numbers may wrap."""


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def wait(completed: int, number: int) -> None:
    """Queue on the current stream: wait until the address `completed` has reached `number`."""
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    address, least = ctypes.c_uint64(completed), ctypes.c_uint32(number)
    code = _driver().cuStreamWaitValue32_v2(stream, address, least, ctypes.c_uint(AT_LEAST))
    if code:
        raise RuntimeError(f"the CUDA driver refuses stream memory operations (code {code}); leave --use-lookahead out")
