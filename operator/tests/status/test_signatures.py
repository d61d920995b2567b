"""What engines and drivers print: each wording has its reason, and the telling line is found."""

from __future__ import annotations

from windlass_operator.status.signatures import SIGNATURES, of_text
from windlass_testbed.cases import every_case

LINES = {
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB": "GpuOutOfMemory",
    "RuntimeError: CUDA error: out of memory": "GpuOutOfMemory",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate": "GpuOutOfMemory",
    "ValueError: Free memory on device cuda:0 (1.2/44.5 GiB) on startup is less than desired": "GpuInUse",
    "ValueError: No available memory for the cache blocks. Try increasing": "KvCacheTooSmall",
    "ValueError: (22.5 GiB KV cache is needed, which is larger than the available KV cache memory": "KvCacheTooSmall",
    "RuntimeError: [enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory": "OutOfMemory",
    "OSError: [Errno 28] No space left on device: '/dev/shm/nccl-1'": "SharedMemoryFull",
    "RuntimeError: unable to write to file </torch_1>: insufficient shared memory (shm)": "SharedMemoryFull",
    "OSError: [Errno 28] No space left on device: '/cache/x'": "DiskFull",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)": "DriverTooOld",
    "CUDA driver version is insufficient for CUDA runtime version": "DriverTooOld",
    "RuntimeError: No CUDA GPUs are available": "GpuMissing",
    "RuntimeError: Failed to infer device type": "GpuMissing",
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": "GpuTooOld",
    "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0": "GpuTooOld",
    "RuntimeError: CUDA error: an illegal memory access was encountered": "GpuFault",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered": "GpuFault",
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp": "NcclFailed",
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed": "NcclFailed",
    "OSError: [Errno 98] Address already in use": "PortTaken",
    "Please pass the argument `trust_remote_code=True` to allow custom code to be run.": "RemoteCodeNeeded",
    "ImportError: This modeling file requires the following packages that were not found in your environment: einops":
        "RemoteCodeFailed",
    "ValueError: Model architectures ['FooForCausalLM'] are not supported for now.": "UnsupportedArchitecture",
    "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer": "ShardBroken",
    "FileNotFoundError: No such file or directory: '/data/model/model-00002.safetensors'": "ShardMissing",
    "RuntimeError: Cannot find any model weights with `/data/model`": "WeightsMissing",
    "OSError: Can't load tokenizer for '/data/model'.": "TokenizerBroken",
    "ValueError: Tokenizer class FooTokenizer does not exist or is not currently imported.": "TokenizerBroken",
    "ValueError: LoRA rank 64 is greater than max_lora_rank 16.": "AdapterBroken",
    "ValueError: User-specified max_model_len (99999) is greater than the derived max_model_len": "ContextTooLong",
    "ValueError: Total number of attention heads (14) must be divisible by tensor parallel size (4).": "BadParallelism",
    "exec /usr/bin/windlass: exec format error": "WrongArchitecture",
}  # fmt: skip


@every_case("line, reason", LINES.items())
def test_a_line_has_its_reason(line, reason):
    assert of_text(f"INFO before\n{line}\nINFO after") == (reason, line)


def test_every_row_is_tried():
    assert {row.reason for row in SIGNATURES} - set(LINES.values()) <= {"ConfigBroken", "UnsupportedQuantization"}


def test_an_ordinary_log_means_nothing():
    assert of_text("INFO: Application startup complete.\nGET /health 200 OK") is None
