"""Hostile answers for the chat page in Chromium: `python tests/attack/chat_page/run.py [pytest's words]`.

Serves the page of this checkout by the real guard, with nothing behind it, and runs the browser's tests against it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from windlass_testbed.attacks import record

REPOSITORY = Path(__file__).parents[3]
SERVER = REPOSITORY / "tests/attack/guard/engine_like.py"
TESTS = REPOSITORY / "tests/browser/test_chat_hostile_markdown.py"


def main() -> int:
    """pytest's exit code."""
    server = subprocess.Popen([sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip() if server.stdout else ""
        words = sys.argv[1:] or [str(TESTS)]
        command = [sys.executable, "-m", "pytest", "-q", "--timeout", "3600", "-p", "no:randomly", *words]
        code = subprocess.run(command, env=os.environ | {"WINDLASS_CHAT_URL": address}, check=False).returncode
        return int(
            not record(__file__, "hostile answers on the chat page", "all tests hold", f"pytest's {code}", not code)
        )
    finally:
        server.communicate(timeout=30)  # its standard input ends, and so does it


if __name__ == "__main__":
    sys.exit(main())
