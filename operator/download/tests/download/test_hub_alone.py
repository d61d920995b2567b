"""The stand-in of a hub runs in a pod with the standard library alone."""

import subprocess
import sys
from pathlib import Path


def test_it_starts_without_any_package() -> None:
    program = Path(__file__).with_name("hub.py")
    done = subprocess.run([sys.executable, "-I", "-S", program, "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
