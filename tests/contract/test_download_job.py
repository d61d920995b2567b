"""Download Job ↔ operator: its last message, its facts and its words are what the operator understands."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from windlass_download import command
from windlass_download.__main__ import main
from windlass_download.progress import Progress
from windlass_operator.status import download, reasons

ROOT = Path(__file__).parents[2]
JOBS = sorted((ROOT / "operator/tests/golden/download").glob("*.yaml"))
NAME, FILES = "qwen/Qwen2-Tiny", {"config.json": b"{}", "model.safetensors": b"x" * 1000}


def a_hub() -> Any:
    """The hub that the program's own tests speak with."""
    spec = importlib.util.spec_from_file_location("contract_hub", ROOT / "operator/download/tests/download/hub.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module.Hub({NAME: {"main": FILES}})


@pytest.mark.parametrize("job", JOBS, ids=lambda path: path.stem)
def test_the_program_takes_the_job_s_arguments(job: Path) -> None:
    """Also a pattern that begins with a dash."""
    (container,) = yaml.safe_load(job.read_text())["spec"]["template"]["spec"]["containers"]
    assert container["command"] == [command.PROGRAM]
    assert command.parser().parse_args(container["args"]).facts_port == 8502


def test_every_word_of_the_program_has_a_row() -> None:
    """Looked up in its source, so that no new one is forgotten."""
    words: set[str] = set()
    for source in files("windlass_download").iterdir():
        if source.name.endswith(".py"):
            words |= set(re.findall(r'"((?:Download|Hub|Path)[A-Z][A-Za-z]+)"', source.read_text()))
    assert {"DownloadConflict", "HubUntrusted", "PathEscapes"} <= words
    assert words - reasons.TABLE.keys() == set()


def test_the_last_message_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Good and bad, and of a hub that is out of reach."""
    monkeypatch.delenv("WINDLASS_HUB_TOKEN", raising=False)
    log = tmp_path / "log"

    def told(endpoint: str, name: str, path: str) -> download.Download:
        words = [f"--root={tmp_path}", f"--path={path}", "--hub=huggingface", f"--name={name}"]
        main([*words, f"--endpoint={endpoint}", "--give-up-s=0", f"--termination-log={log}"])
        return download.parse(log.read_text(), "")

    with a_hub() as hub:
        done, absent = told(hub.url, NAME, "one"), told(hub.url, "qwen/Nothing", "two")
    away = told("http://127.0.0.1:9", NAME, "three")
    assert (done.state, done.reason) == (download.State.DONE, "Downloaded")
    assert done.message.startswith(f"{NAME} at ")
    assert done.message.endswith(": 2 files, 0.00 GiB")
    assert (absent.state, absent.reason) == (download.State.FAILED, "DownloadNotFound")
    assert (away.state, away.reason) == (download.State.FAILED, "HubUnreachable")


def test_the_facts_are_understood() -> None:
    """As they come over HTTP, while bytes arrive."""
    progress = Progress(time.monotonic)
    progress.begin(100, 2)
    progress.have(40, 1)
    facts = json.loads(json.dumps(progress.facts()))
    told = download.progress(facts)
    assert (told["bytesDone"], told["bytesTotal"]) == (40, 100)
