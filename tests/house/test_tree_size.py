"""What is committed is small: whoever clones it waits for it."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS_BYTES_MAX, TREE_BYTES_MAX = 16_000_000, 32_000_000


def test_what_is_committed_is_small() -> None:
    """At most 16 MB of weights, and a whole tree under 32 MB."""
    assert (ROOT / "models/demo/model.safetensors").stat().st_size < WEIGHTS_BYTES_MAX
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sizes = [(ROOT / name).lstat().st_size for name in tracked.split("\0") if name and (ROOT / name).exists()]
    assert sum(sizes) < TREE_BYTES_MAX
