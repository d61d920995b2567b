"""`make test-clients`: client libraries at the demo's model, each alone in its environment, as they are by default."""

import subprocess
import sys
from pathlib import Path

import pytest

from .client_libraries import CHECKS

PROGRAM = Path(__file__).with_name("client_libraries.py")
VERSIONS = {
    "openai": "3.57.0",
    "anthropic": "2.14.0",
    "litellm": "1.110.2",
    "langchain-openai": "1.7.4",
    "instructor": "1.17.0",
    "pydantic-ai-slim[openai]": "2.68.0",
    "haystack-ai": "3.4.1",
    "dspy": "3.4.1",
    "semantic-kernel": "1.45.0",
    "llama-index-llms-openai-like": "0.8.1",
}
"""The newest of 2026-11-29."""


@pytest.fixture(scope="module")
def address(engine):
    words = "windlass run --dtype float32 --max-model-len 1024 --served-model-name demo"
    with engine.serving(*words.split()) as url:
        yield url


@pytest.mark.parametrize("library", CHECKS)
def test_a_library_works_with_its_default_settings(address, library):
    """Chat, streams, and answers that keep a schema where the library asks for one."""
    uv = [str(Path(sys.executable).with_name("uv")), "run", "--quiet", "--no-project"]
    command = [*uv, "--with", f"{library}=={VERSIONS[library]}", "--with", "pydantic", "python", str(PROGRAM)]
    done = subprocess.run([*command, library, address], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
