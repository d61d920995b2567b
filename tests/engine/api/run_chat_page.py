"""`make test-chat-page`: serves the demo model from its image and runs tests/browser against it. Needs chromium."""

import os
import subprocess
import sys

from windlass_testbed.paths import REPOSITORY


def test_the_chat_page_in_a_browser(engine):
    """Every browser test, against the page as the image serves it."""
    words = "windlass run --dtype float32 --max-model-len 1024 --served-model-name demo"
    with engine.serving(*words.split()) as url:
        command = [sys.executable, "-m", "pytest", "-q", "--timeout", "180", str(REPOSITORY / "tests/browser")]
        done = subprocess.run(command, env=os.environ | {"WINDLASS_CHAT_URL": url}, cwd=REPOSITORY, check=False)
    assert done.returncode == 0
