"""One loaded process for all attacks of a worker, and a folder for each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hostile_hub import TOKEN, Runner, Zygote


@pytest.fixture(scope="session")
def zygote():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINDLASS_HUB_TOKEN", TOKEN)
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
            patch.delenv(name, raising=False)
        with Zygote() as one:
            yield one


@pytest.fixture
def runner(zygote, tmp_path):
    return Runner(zygote, tmp_path)
