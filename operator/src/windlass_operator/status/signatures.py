"""What engines, drivers and kernels print before they end, and the reason that it means; the first match wins.

Wordings are those of vLLM 0.32, torch, transformers, safetensors, NCCL and the CUDA driver; a text that matches no row
keeps the vague word of its exit code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signature:
    """One kind of text, and the reason that it stands for."""

    reason: str
    pattern: re.Pattern[str]


def _row(reason: str, *wordings: str) -> Signature:
    return Signature(reason, re.compile("|".join(wordings), re.IGNORECASE))


SIGNATURES = (
    # Memory: the cache's sentence before the card's, which its traceback may hold as well.
    _row(
        "KvCacheTooSmall",
        r"KV\s+cache is needed, which is larger",
        r"No available memory for the cache blocks",
        r"KV cache memory is not enough",
        r"larger than the maximum number of tokens that can be stored in KV cache",
    ),
    _row("GpuInUse", r"Free memory on device .* is less than"),
    _row(
        "GpuOutOfMemory",
        r"CUDA out of memory",
        r"CUDA error: out of memory",
        r"torch\.(?:cuda\.)?OutOfMemoryError",
        r"CUDA_ERROR_OUT_OF_MEMORY",
        r"cudaErrorMemoryAllocation",
        r"CUBLAS_STATUS_ALLOC_FAILED",
        r"HIP out of memory",
        r"Triton Error \[CUDA\]: out of memory",
    ),
    _row("OutOfMemory", r"DefaultCPUAllocator: can.?t allocate memory", r"\bMemoryError\b", r"Cannot allocate memory"),
    _row(
        "SharedMemoryFull",
        r"No space left on device.*\bshm\b",
        r"\bshm\b.*No space left on device",
        r"insufficient shared memory \(shm\)",
        r"unable to (?:write to|mmap|allocate) .*shared memory",
        r"Error while creating shared memory segment",
    ),
    _row("DiskFull", r"No space left on device", r"Disk quota exceeded"),
    # The card, its driver, and the way between cards.
    _row(
        "DriverTooOld",
        r"CUDA driver version is insufficient",
        r"NVIDIA driver on your system is too old",
        r"system has unsupported display driver / cuda driver combination",
        r"cudaErrorInsufficientDriver",
        r"forward compatibility was attempted on non supported HW",
        r"provided PTX was compiled with an unsupported toolchain",
    ),
    _row(
        "GpuMissing",
        r"no CUDA-capable device is detected",
        r"No CUDA GPUs are available",
        r"Found no NVIDIA driver",
        r"Failed to infer device type",
        r"nvidia-container-cli: .*(?:no devices|not found|initialization error)",
        r"libcuda\.so\.1: cannot open shared object",
        r"NVML Shared Library Not Found",
        r"invalid device ordinal",
    ),
    _row(
        "GpuTooOld",
        r"no kernel image is available for execution",
        r"Bfloat16 is only supported on GPUs with compute capability",
        r"minimum capability for .* is",
        r"is not supported for the current GPU\. Minimum capability",
    ),
    _row(
        "GpuFault",
        r"an illegal memory access was encountered",
        r"uncorrectable ECC error",
        r"unspecified launch failure",
        r"GPU has fallen off the bus",
        r"Unable to determine the device handle for GPU",
        r"device-side assert triggered",
        r"NVML: Unknown Error",
        r"\bXid\b",
    ),
    _row(
        "NcclFailed",
        r"NCCL error",
        r"ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclRemoteError|ncclInvalidUsage",
        r"DistBackendError",
        r"NCCL WARN",
        r"Gloo connectFullMesh failed",
    ),
    _row("PortTaken", r"address already in use", r"EADDRINUSE"),
    # The model's files.
    _row("RemoteCodeNeeded", r"trust_remote_code=True", r"execute custom code contained in the model repository"),
    _row("RemoteCodeFailed", r"requires the following packages that were not found in your environment"),
    _row(
        "UnsupportedArchitecture",
        r"Model architectures? .* (?:are|is) not supported",
        r"does not recognize this architecture",
        r"has no vLLM implementation",
        r"failed to be inspected\. Please check the logs",
    ),
    _row(
        "ShardBroken",
        r"Error while deserializing header",
        r"SafetensorError",
        r"MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeader|HeaderTooSmall",
        r"PytorchStreamReader failed",
        r"unexpected EOF, expected .* more bytes",
    ),
    _row(
        "ShardMissing",
        r"No such file or directory: .*\.(?:safetensors|bin|pt)\b",
        r"weights were not initialized from checkpoint",
        r"Cannot find .*shard",
    ),
    _row("WeightsMissing", r"Cannot find any model weights"),
    _row(
        "TokenizerBroken",
        r"Can.?t load tokenizer for",
        r"Tokenizer class \S+ does not exist",
        r"data did not match any variant of untagged enum",
        r"instantiate the backend tokenizer",
        r"expected value at line \d+ column \d+",
        r"Unrecognized tokenizer",
        r"tokenizer\.(?:json|model).*(?:not a valid|No such file)",
    ),
    _row(
        "AdapterBroken",
        r"LoRA rank \d+ is greater than max_lora_rank",
        r"adapter_config\.json",
        r"Loading lora .* failed",
    ),
    _row("ConfigBroken", r"config\.json.* is not a valid JSON file", r"JSONDecodeError.*config\.json"),
    _row("UnsupportedQuantization", r"Unknown quantization method", r"quantization method .* is not supported"),
    _row(
        "ContextTooLong",
        r"User-specified max_model_len \(\d+\) is greater than the derived max_model_len",
    ),
    _row(
        "BadParallelism",
        r"Total number of attention heads .* must be divisible by tensor parallel size",
        r"World size .* is larger than the number of available GPUs",
    ),
    _row("WrongArchitecture", r"exec format error"),
)


def of_text(text: str) -> tuple[str, str] | None:
    """The reason that a text means, and the line that says so; None when no row knows it."""
    for row in SIGNATURES:
        found = row.pattern.search(text)
        if found:
            start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
            return row.reason, text[start : end if end >= 0 else len(text)].strip()
    return None
