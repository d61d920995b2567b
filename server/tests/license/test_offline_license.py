"""`LLM()` and the license: nothing is loaded before it is granted, nothing generated after it is lost."""

import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import windlass
from windlass import offline
from windlass.errors import LicenseError
from windlass.license import gpus
from windlass_testbed.waiting import HANG_S

MODEL = str(Path(__file__).parents[3] / "models" / "demo")
GRANT = {"lease": "L1", "ttlSeconds": 0.3, "graceSeconds": 0, "message": "granted"}
REFUSAL = {"reason": "NoLicense", "message": "no license is in force"}


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with one GPU and an engine that says what it was asked to do."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA L20 (UUID: GPU-a)'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)  # of the process that holds the lease
    monkeypatch.setattr(gpus, "SMI", str(smi))
    monkeypatch.setenv("WINDLASS_ENGINE", "cpu")
    done: list[str] = []

    class Engine:
        def __init__(self, **_: Any) -> None:
            done.append("loaded")

        def generate(self, *_: Any, **__: Any) -> list[str]:
            done.append("generated")
            return ["text"]

        chat = generate

    monkeypatch.setattr(offline, "_engine", lambda: SimpleNamespace(LLM=Engine))
    return done


def test_nothing_is_loaded_without_a_license(loaded: list[str], serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """WINDLASS_LICENSE_WAIT counts here, too; the sentence names the GPU."""
    server = serve(lambda seen: (403, json.dumps(REFUSAL)))
    monkeypatch.setenv("WINDLASS_LS_ADDR", server.url)
    monkeypatch.setenv("WINDLASS_LICENSE_WAIT", "0")
    with pytest.raises(LicenseError, match=r"GPU GPU-a: no license is in force; gave up after \d+ s"):
        windlass.LLM(MODEL)
    assert loaded == []


def test_a_lease_while_the_model_lives(loaded: list[str], serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken before loading, given back when nobody refers to the model any more."""
    server = serve(lambda seen: (200, json.dumps(GRANT | {"ttlSeconds": 60})))
    monkeypatch.setenv("WINDLASS_LS_ADDR", server.url)
    llm = windlass.LLM(MODEL)
    assert [(seen.method, seen.body["gpus"]) for seen in server.seen] == [("POST", ["GPU-a"])]
    assert llm.generate("a") == llm.chat([]) == ["text"]
    del llm
    assert (loaded, server.seen[-1].method) == (["loaded", "generated", "generated"], "DELETE")


def test_nothing_is_generated_after_the_license_is_lost(
    loaded: list[str], serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TTL and grace without a renewal, and the next call says so."""
    down = threading.Event()
    server = serve(lambda seen: (500, "down") if down.is_set() else (200, json.dumps(GRANT)))
    monkeypatch.setenv("WINDLASS_LS_ADDR", server.url)
    llm = windlass.LLM(MODEL)
    down.set()
    llm._license._process.wait(HANG_S)
    for call in (lambda: llm.generate("a"), lambda: llm.chat([])):
        with pytest.raises(LicenseError, match="the license was not renewed for"):
            call()
    assert loaded == ["loaded"]


def test_none_is_asked_for_without_gpus(loaded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert windlass.LLM(MODEL).generate("a") == ["text"]
