"""`nvidia-smi -L` output as customers send it."""

import pytest
from windlass_license.errors import ListingError
from windlass_license.license_file.listing import ListedGpu, merge_listings, parse_listing

T4 = "GPU 0: Tesla T4 (UUID: GPU-4c34f7a2-cd33-469b-019f-9af0bb76a073)"
L20 = "GPU 1: NVIDIA L20 (UUID: GPU-47326f70-8b22-8137-0b48-1d3746ff7581)"
T4_GPU = ListedGpu("GPU-4c34f7a2-cd33-469b-019f-9af0bb76a073", "Tesla T4")
L20_GPU = ListedGpu("GPU-47326f70-8b22-8137-0b48-1d3746ff7581", "NVIDIA L20")

LISTINGS = {
    "one machine": (f"{T4}\n{L20}\n", (T4_GPU, L20_GPU)),
    "no newline at the end": (T4, (T4_GPU,)),
    "windows newlines": (f"{T4}\r\n{L20}\r\n", (T4_GPU, L20_GPU)),
    "byte order mark": (f"\ufeff{T4}\n", (T4_GPU,)),
    "blank and indented lines": (f"\n\n  {T4}\n \t\n{L20}  \n\n", (T4_GPU, L20_GPU)),
    "duplicates": (f"{T4}\n{L20}\n{T4}\n", (T4_GPU, L20_GPU)),
    "brand with brackets": (
        "GPU 0: NVIDIA A100 (80GB) (UUID: GPU-aaaa)\n",
        (ListedGpu("GPU-aaaa", "NVIDIA A100 (80GB)"),),
    ),
    "mig": (
        f"{L20}\n  MIG 1g.10gb     Device  0: (UUID: MIG-b7)\n  MIG 1g.10gb     Device  1: (UUID: MIG-a7)\n{T4}\n",
        (ListedGpu(L20_GPU.uuid, "NVIDIA L20", ("MIG-a7", "MIG-b7")), T4_GPU),
    ),
    "old mig names": (
        "GPU 0: A100 (UUID: GPU-aa)\n  MIG 3g.20gb Device 0: (UUID: MIG-GPU-aa/1/0)\n",
        (ListedGpu("GPU-aa", "A100", ("MIG-GPU-aa/1/0",)),),
    ),
}


@pytest.mark.parametrize(("text", "expected"), LISTINGS.values(), ids=LISTINGS)
def test_listing(text: str, expected: tuple[ListedGpu, ...]) -> None:
    """Every GPU is found once, whatever the text went through on its way."""
    assert expected == parse_listing(text)


BAD = {
    "prose": ("hello", "request.txt line 1 is not a line of `nvidia-smi -L`"),
    "no driver": (f"{T4}\nFailed to initialize NVML: Driver/library version mismatch", "line 2"),
    "cut uuid": (T4[:-1], "line 1"),
    "mig without its gpu": ("  MIG 1g.10gb Device 0: (UUID: MIG-a)", "line 1"),
    "two brands": (f"{T4}\n{T4.replace('T4', 'T5')}", 'is listed as "Tesla T4" and as "Tesla T5"'),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_bad_listing(text: str, message: str) -> None:
    """A line that is not understood is named, never skipped."""
    with pytest.raises(ListingError, match=message.replace("(", r"\(")):
        parse_listing(text, "request.txt")


def test_merge_removes_duplicates_between_files() -> None:
    """A machine that is in two files is licensed once, with all its MIG devices."""
    with_slice = ListedGpu(T4_GPU.uuid, T4_GPU.brand, ("MIG-a",))
    assert (with_slice, L20_GPU) == merge_listings([(T4_GPU, L20_GPU), (with_slice,)])


def test_no_gpu_is_an_error() -> None:
    """Empty files do not make an empty license."""
    with pytest.raises(ListingError, match="names no GPU"):
        merge_listings([(), ()])
