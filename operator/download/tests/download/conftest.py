"""A small model on a local hub, and a way to run the command against it."""

from __future__ import annotations

import json
import random
import ssl
from pathlib import Path

import pytest
from windlass_download.__main__ import main

from .hub import Hub

NAME = "qwen/Qwen2-Tiny"


def a_model(seed: int = 1, shards: int = 3, shard_bytes: int = 200_000) -> dict[str, bytes]:
    """Files of all kinds: small and large, in a folder, empty."""
    chance = random.Random(seed)
    files = {f"model-{n}.safetensors": chance.randbytes(shard_bytes + 7919 * n) for n in range(shards)}
    index = {"weight_map": {f"w{n}": f"model-{n}.safetensors" for n in range(shards)}}
    return {
        "config.json": json.dumps({"seed": seed}).encode(),
        "model.safetensors.index.json": json.dumps(index).encode(),
        "tokenizer.json": chance.randbytes(5000),
        "sub/notes.txt": b"hello",
        "empty.txt": b"",
        **files,
    }


class Bench:
    """A volume, a hub, and the command between them."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.hub, self.folder, self.volume = hub, folder, folder / "volume"
        self.volume.mkdir()

    @property
    def target(self) -> Path:
        return self.volume / "models" / "tiny"

    def words(self, *more: str, hub: str = "huggingface", path: str = "models/tiny") -> list[str]:
        words = ["--root", str(self.volume), "--path", path, "--hub", hub, "--name", NAME]
        words += ["--endpoint", self.hub.url, "--part-kib", "64", "--stall-s", "60", "--stale-s", "2"]
        return [*words, "--give-up-s", "600", "--termination-log", str(self.folder / "log"), *more]

    def run(self, *more: str, **where: str) -> tuple[int, dict]:
        code = main(self.words(*more, **where))
        return code, json.loads((self.folder / "log").read_text())


@pytest.fixture(scope="session", autouse=True)
def few_authorities(tmp_path_factory):
    """One authority instead of all: each client of each run reads them, and nothing here speaks TLS."""
    paths = ssl.get_default_verify_paths()
    known = Path(paths.cafile or paths.openssl_cafile)
    with pytest.MonkeyPatch.context() as patch:
        if known.is_file():
            end = "-----END CERTIFICATE-----"
            one = tmp_path_factory.mktemp("authorities") / "one.pem"
            one.write_text(known.read_text().partition(end)[0] + end + "\n")
            patch.setenv("SSL_CERT_FILE", str(one))
        yield


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.delenv("WINDLASS_HUB_TOKEN", raising=False)
    files = a_model()
    with Hub({NAME: {"main": files, "master": files}}) as hub:
        yield Bench(tmp_path, hub)


def content(folder: Path) -> dict[str, bytes]:
    """What lies in a directory, without our own marker."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".windlass"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
