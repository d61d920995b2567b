"""Compiles CUDA C++ at run time and launches it on torch's current stream, through NVRTC and the driver by ctypes.

torch brings NVRTC in every image with a GPU; a compiler of the image is not needed. A kernel is loaded once for each
device and set of macros.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import torch

from windlass.engine import signal_actions

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_UNITS = {1: 0, 8: 4}  # bytes of CUtensorMapDataType's UINT8 and UINT64
_SWIZZLE_128B, _PROMOTION_256B = 3, 3  # of CUtensorMapSwizzle, …L2promotion
_AHEAD = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute with a number for a value."""

    _fields_ = (("id", ctypes.c_int), ("_", ctypes.c_int), ("value", ctypes.c_int), ("_rest", ctypes.c_char * 60))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("sizes", ctypes.c_uint * 6),  # of the grid, of a block
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class KernelError(RuntimeError):
    """NVRTC or the driver refused; the message holds its words."""


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def _nvrtc() -> ctypes.CDLL:
    major = (torch.version.cuda or "13").split(".")[0]
    found = find_spec("nvidia")
    folders = [Path(place) for place in (found.submodule_search_locations or ())] if found else []
    names = [str(path) for folder in folders for path in sorted(folder.glob(f"*/lib/libnvrtc.so.{major}"))]
    for name in [*names, f"libnvrtc.so.{major}"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise KernelError(f"libnvrtc.so.{major} was found neither beside torch nor on the library path; reinstall torch")


def _checked(code: int, what: str) -> None:
    if code:
        raise KernelError(f"{what} failed with error {code} of the CUDA driver")


def compile_cubin(source: str, architecture: str, macros: tuple[str, ...]) -> bytes:
    """The machine code of a source for one architecture, as `sm_90`; raises KernelError with the compiler's log."""
    library, program = _nvrtc(), ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        options = [f"--gpu-architecture={architecture}", "--std=c++17", "-default-device", *(f"-D{m}" for m in macros)]
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        with signal_actions.kept():  # NVRTC puts the handlers of SIGTERM and SIGINT back with SA_RESTART
            code = library.nvrtcCompileProgram(program, len(options), words)
        if code:
            raise KernelError(f"NVRTC: {_text(library, 'ProgramLog', program).decode(errors='replace')[:2000]}")
        return _text(library, "CUBIN", program)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def cubin(files: tuple[str, ...], architecture: str, macros: tuple[str, ...]) -> bytes:
    """The machine code of our files joined, from the cache folder (under VLLM_CACHE_ROOT) or compiled and put there."""
    source = "".join(resources.files("windlass.engine").joinpath(name).read_text() for name in files)
    key = "\0".join((source, architecture, str(torch.version.cuda), *macros))
    root = Path(os.environ.get("VLLM_CACHE_ROOT", "~/.cache/vllm")).expanduser()
    path = root / "windlass-kernels" / f"{hashlib.sha256(key.encode()).hexdigest()}.cubin"
    if path.is_file():
        return path.read_bytes()
    code = compile_cubin(source, architecture, macros)
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = path.with_suffix(f".{os.getpid()}")
    mine.write_bytes(code)
    mine.replace(path)  # whole or not at all, whichever of several workers is first
    return code


def _text(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw


class Boxes:
    """An array as the tensor memory accelerator reads it, a box at a time. Hopper and later.

    `sizes` and `box` count units of 1 or 8 bytes, the innermost dimension first; `strides` are bytes, of all dimensions
    but the innermost. What lies outside is zeros. Swizzled boxes are 128 bytes wide. `address` is where the driver's
    description lies (CUtensorMap, which wants 64-byte steps).
    """

    def __init__(
        self,
        start: int,
        unit_bytes: int,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        box: tuple[int, ...],
        *,
        swizzled: bool,
    ) -> None:
        self._room = ctypes.create_string_buffer(192)
        self.address = -(-ctypes.addressof(self._room) // 64) * 64
        rank, place, from_ = len(sizes), ctypes.c_void_p(self.address), ctypes.c_void_p(start)
        every = (ctypes.c_uint32 * rank)(*([1] * rank))
        code = _driver().cuTensorMapEncodeTiled(
            *(place, _UNITS[unit_bytes], rank, from_, (ctypes.c_uint64 * rank)(*sizes)),
            *((ctypes.c_uint64 * (rank - 1))(*strides), (ctypes.c_uint32 * rank)(*box), every),
            *(0, _SWIZZLE_128B if swizzled else 0, _PROMOTION_256B, 0),
        )
        _checked(code, f"describing an array of {sizes} in boxes of {box}")


class Kernel:
    """One function of a compiled source on one device."""

    def __init__(self, cubin: bytes, name: str, shared_bytes: int, device: int) -> None:
        self._module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.shared_bytes, self.device = shared_bytes, device
        driver = _driver()
        _checked(driver.cuModuleLoadData(ctypes.byref(self._module), cubin), f"loading {name}")
        _checked(driver.cuModuleGetFunction(ctypes.byref(self.function), self._module, name.encode()), name)
        if shared_bytes > 48 * 1024:
            code = driver.cuFuncSetAttribute(self.function, _MAX_DYNAMIC_SHARED, shared_bytes)
            _checked(code, f"{name} with {shared_bytes} bytes of shared memory")


def _number(value: float) -> ctypes.c_int | ctypes.c_float:
    return ctypes.c_int(value) if isinstance(value, int) else ctypes.c_float(value)


class Launch:
    """A kernel with its grid and its numbers, made once for a shape: between calls addresses change, and some numbers.

    Without torch.compile and graphs, as in a prefill, a layer's product waits for the Python in front of it. `ahead`
    lets the kernel begin before the one in front has ended; it waits for that itself.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        threads: int,
        tensors: int,
        *numbers: float,
        ahead: bool = False,
    ) -> None:
        self._addresses = [ctypes.c_void_p() for _ in range(tensors)]
        self._numbers = [_number(value) for value in numbers]
        self._held = [*self._addresses, *self._numbers]
        self._pointers = (ctypes.c_void_p * len(self._held))(*(ctypes.addressof(value) for value in self._held))
        self._function, self._launch = kernel.function, _driver().cuLaunchKernelEx
        self._config = _Config((*grid, threads, 1, 1), kernel.shared_bytes)
        if ahead:
            self._config.attributes, self._config.count = ctypes.pointer(_Attribute(_AHEAD, 0, 1)), 1
        self._by_config = ctypes.byref(self._config)
        self._device = kernel.device

    def numbered(self, *numbers: int) -> Launch:
        """Itself, with other numbers, of which these are the first."""
        for place, number in zip(self._numbers, numbers, strict=False):
            place.value = number
        return self

    def over(self, boxes: tuple[Boxes, ...], *tensors: torch.Tensor | None) -> None:
        """The same, where the first arguments are such arrays."""
        for at, one in enumerate(boxes):
            self._pointers[at] = one.address
        self(*(None for _ in boxes), *tensors)

    def __call__(self, *tensors: torch.Tensor | None) -> None:
        """Launch on the current stream; None goes as a null pointer."""
        for address, tensor in zip(self._addresses, tensors, strict=True):
            address.value = None if tensor is None else tensor.data_ptr()
        self._config.stream = torch.cuda.current_stream(self._device).cuda_stream
        _checked(self._launch(self._by_config, self._function, self._pointers, None), "a launch")


def architecture(device: int) -> str:
    """As `sm_89`; Hopper's own instructions need `sm_90a`."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}{'a' if major == 9 else ''}"


@functools.cache
def kernel(device: int, files: tuple[str, ...], name: str, shared_bytes: int, macros: tuple[str, ...]) -> Kernel:
    """A function of our files, compiled for a device on first use."""
    with torch.cuda.device(device):
        torch.cuda.current_stream()  # makes the device's context current
        return Kernel(cubin(files, architecture(device), macros), name, shared_bytes, device)
