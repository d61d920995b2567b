"""The GPUs of a container, from a listing or from a variable."""

import os
from pathlib import Path

import pytest
from windlass.launch.model import Gpu
from windlass.license import gpus

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


def test_listing_wins_over_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's word is taken; without a driver the variable's, without both there is no GPU."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'E'\n{LISTING}E\n")
    program.chmod(0o755)
    assert len(gpus.visible({"NVIDIA_VISIBLE_DEVICES": "GPU-z"})) == 4
    program.write_text("#!/bin/sh\necho no driver; exit 9\n")
    assert (Gpu("GPU-z"),) == gpus.visible({"NVIDIA_VISIBLE_DEVICES": "GPU-z"})
    program.unlink()
    assert gpus.visible({}) == ()
