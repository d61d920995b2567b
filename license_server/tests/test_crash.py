"""A short sample of `make crash-license`: the server is killed once and loses power twice, and keeps every promise."""

import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).resolve().parents[1] / "crash" / "run.py"


def test_three_ends() -> None:
    """Nothing that was acknowledged is lost, and nothing is granted twice."""
    command = [sys.executable, RUN, "--kills", "1", "--cuts", "2", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["every promise was kept"]), (
        done.stdout + done.stderr
    )
