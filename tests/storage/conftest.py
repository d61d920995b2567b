"""An NFS share, guests that mount it, and a hub on this machine that they download from."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pytest
from windlass_testbed import serving
from windlass_testbed.paths import REPOSITORY, Paths, paths
from windlass_testbed.waiting import wait_until

from .guest import HOST, Guest, booted, image_tree
from .nfs_share import PSEUDO, Share

DEMO = REPOSITORY / "models/demo"
MODEL_FILES = ("config.json", "chat_template.jinja", "generation_config.json", "model.safetensors", "tokenizer.json",
               "tokenizer_config.json")  # fmt: skip


class Boot(Protocol):
    """Starts a guest of that name; it is gone after the block."""

    def __call__(self, name: str) -> AbstractContextManager[Guest]: ...


@pytest.fixture(scope="session")
def bed() -> Paths:
    """Where the container engine keeps the images."""
    return paths()


@pytest.fixture(scope="session")
def operator_tree(bed: Paths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The operator's image, whose programs the inspect and download Jobs run."""
    image = serving.ensure(bed, "operator")
    with image_tree(bed, image, tmp_path_factory.mktemp("operator")) as tree:
        yield tree


@pytest.fixture(scope="session")
def server_tree(bed: Paths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The serving image."""
    image = serving.ensure(bed, "server-cpu")
    with image_tree(bed, image, tmp_path_factory.mktemp("server")) as tree:
        yield tree


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Share]:
    """A share that holds the demo's model in `demo`."""
    folder = tmp_path / "volume"
    (folder / "demo").mkdir(parents=True)
    for name in MODEL_FILES:
        shutil.copy(DEMO / name, folder / "demo")
    share = Share(folder, tmp_path / "nfs")
    share.come()
    yield share
    share.go()


def _starter(bed: Paths, tree: Path, share: Share) -> Boot:
    @contextmanager
    def start(name: str) -> Iterator[Guest]:
        with booted(bed, tree, f"{HOST}:{PSEUDO}", share.port, name) as guest:
            print(f"guest {name}: {guest.accelerator}, up after {guest.seconds:.0f} s")
            yield guest

    return start


@pytest.fixture
def an_operator(bed: Paths, operator_tree: Path, share: Share) -> Boot:
    """A guest with the operator's programs."""
    return _starter(bed, operator_tree, share)


@pytest.fixture
def a_server(bed: Paths, server_tree: Path, share: Share) -> Boot:
    """A guest with the serving image's programs."""
    return _starter(bed, server_tree, share)


@pytest.fixture(scope="session")
def hub_module() -> ModuleType:
    """The hub of the download's own tests."""
    path = REPOSITORY / "operator/download/tests/download/hub.py"
    spec = importlib.util.spec_from_file_location("nfs_hub", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def until() -> Callable[..., None]:
    """Wait until something holds, for a bounded time."""

    def wait(holds: Callable[[], bool], what: str, timeout_s: float = 300) -> None:
        wait_until(holds, what, hang_s=timeout_s, look_s=0.2)

    return wait
