"""The GPUs of a container, from a listing, the driver's library or a variable."""
# ruff: noqa: N802  a stand-in of a C library has its names

from pathlib import Path
from typing import Any, ClassVar

import pytest
from windlass.license import gpus, nvml
from windlass.license.model import Gpu

LISTING = """\
GPU 0: NVIDIA L20 (UUID: GPU-6b1e9d8a-0000-4000-8000-000000000001)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-6b1e9d8a-0000-4000-8000-000000000002)
  MIG 1g.5gb      Device  0: (UUID: MIG-aaaa-1)
  MIG 2g.10gb     Device  1: (UUID: MIG-GPU-6b1e9d8a/3/0)
GPU 2: NVIDIA L20 (UUID: GPU-6b1e9d8a-0000-4000-8000-000000000003)
"""


def test_listing_with_slices() -> None:
    """A card that is cut into slices is listed by its slices, an undivided one by itself."""
    expected = (
        Gpu("GPU-6b1e9d8a-0000-4000-8000-000000000001", "NVIDIA L20"),
        Gpu("MIG-aaaa-1", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"),
        Gpu("MIG-GPU-6b1e9d8a/3/0", "NVIDIA A100-SXM4-40GB MIG 2g.10gb"),
        Gpu("GPU-6b1e9d8a-0000-4000-8000-000000000003", "NVIDIA L20"),
    )
    assert expected == gpus.parse_listing(LISTING)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("GPU-a,GPU-b", ("GPU-a", "GPU-b")), (" MIG-x ", ("MIG-x",)), ("all", ()), ("0,1", ()), ("void", ()), ("", ())],
)
def test_variable(text: str, expected: tuple[str, ...]) -> None:
    """Only UUIDs count."""
    assert expected == tuple(gpu.uuid for gpu in gpus.parse_variable(text))


CARDS = (Gpu("GPU-aa1", "L20"), Gpu("GPU-ab2", "L20"), Gpu("MIG-c3", "A100"), Gpu("GPU-d4", "L20"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,1", ["GPU-aa1", "GPU-ab2"]),
        ("3, 0", ["GPU-d4", "GPU-aa1"]),
        ("GPU-ab", ["GPU-ab2"]),
        ("MIG-c3", ["MIG-c3"]),
        ("1,GPU-ab2", ["GPU-ab2"]),
        ("", []),
        ("-1", []),
        ("0,7,1", ["GPU-aa1"]),
        ("0,GPU-a,1", ["GPU-aa1"]),
        ("NoDevFiles", []),
    ],
)
def test_what_the_engine_sees(text: str, expected: list[str]) -> None:
    """As CUDA reads it: numbers and beginnings of UUIDs; what is wrong or could mean two cards ends the list."""
    assert expected == [gpu.uuid for gpu in gpus.select(CARDS, text)]


class Nvml:
    """The functions of the driver's library for one whole card and one that is cut in two, the second slice missing."""

    names = ("L20", "A100")
    slices: ClassVar = {
        200: "A100 MIG 1g.5gb",
        202: "A100",
    }  # of a driver of today, and of one that says the card's name only

    def __init__(self, started: int = 0) -> None:
        self.started, self.ended = started, 0

    def nvmlInit_v2(self) -> int:
        return self.started

    def nvmlShutdown(self) -> int:
        self.ended += 1
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.names) + 1
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, number: Any, handle: Any) -> int:
        if number.value >= len(self.names):
            return 15  # the GPU is lost
        handle._obj.value = 100 + number.value
        return 0

    def nvmlDeviceGetName(self, device: Any, buffer: Any, _: Any) -> int:
        buffer.value = self.slices.get(device.value, self.names[device.value % 100 % 2]).encode()
        return 0

    def nvmlDeviceGetUUID(self, device: Any, buffer: Any, _: Any) -> int:
        buffer.value = (f"GPU-{device.value}" if device.value < 200 else f"MIG-{device.value}").encode()
        return 0

    def nvmlDeviceGetMigMode(self, device: Any, now: Any, _: Any) -> int:
        if device.value == 100:
            return 3  # not supported
        now._obj.value = 1
        return 0

    def nvmlDeviceGetMaxMigDeviceCount(self, _: Any, count: Any) -> int:
        count._obj.value = 7
        return 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, _: Any, number: Any, handle: Any) -> int:
        if number.value not in (0, 2):
            return 6  # not found
        handle._obj.value = 200 + number.value
        return 0


def test_the_drivers_library() -> None:
    """Without `nvidia-smi` the library tells cards and slices, and is closed again."""
    library = Nvml()
    expected = (Gpu("GPU-100", "L20"), Gpu("MIG-200", "A100 MIG 1g.5gb"), Gpu("MIG-202", "A100 MIG"))
    assert expected == nvml.read(library)
    assert library.ended == 1
    assert nvml.read(Nvml(started=9)) == ()


def test_listing_wins_over_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's word is taken; without a driver the variable's, without both there is no GPU."""
    program = tmp_path / "nvidia-smi"
    monkeypatch.setattr(gpus, "SMI", str(program))
    program.write_text(f"#!/bin/sh\ncat <<'E'\n{LISTING}E\n")
    program.chmod(0o755)
    assert len(gpus.visible({"NVIDIA_VISIBLE_DEVICES": "GPU-z"})) == 4
    program.write_text("#!/bin/sh\necho no driver; exit 9\n")
    assert (Gpu("GPU-z"),) == gpus.visible({"NVIDIA_VISIBLE_DEVICES": "GPU-z"})
    program.unlink()
    assert gpus.visible({}) == ()


def test_the_library_comes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the driver says is more than what the container was asked to have; CUDA_VISIBLE_DEVICES chooses of it."""
    monkeypatch.setattr(nvml, "gpus", lambda: CARDS)
    assert gpus.visible({"NVIDIA_VISIBLE_DEVICES": "GPU-z"}) == CARDS
    assert gpus.visible({"CUDA_VISIBLE_DEVICES": "1"}) == CARDS[1:2]
    assert gpus.visible({"CUDA_VISIBLE_DEVICES": ""}) == ()
