"""`make images-gpu`: the GPU images, built one after the other and looked at; sizes, seconds and disk are printed.

They are built by a container engine of their own: its data root lies beside the cluster's, and it makes no networks,
so that a cluster that runs meanwhile is not touched. What was built stays there, found again by its content key.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from windlass_testbed import daemon, gpu_image_checks, gpu_layers, images, machine, scratch_images
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.process import say

# In the order in which they are built: an engine, then the image on it, twice.
NAMES = ("engine-gpu", "server", "engine-deepspeed-gpu", "deepspeed-gpu")
CHECKED = ("server", "deepspeed-gpu")
# Free disk in GiB that an image's first build asks for: 16 stay in the cache, wheels lie beside them meanwhile.
DISK_GIB = {"engine-gpu": 22, "server": 2, "engine-deepspeed-gpu": 10, "deepspeed-gpu": 1}
NO_NETWORKS = ("--iptables=false", "--ip6tables=false")
SAMPLE_S = 2.0


@dataclass(slots=True)
class Disk:
    """Disk used on the file system of a folder, sampled while images are built; in bytes."""

    folder: Path
    before: int = 0
    most: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.before = self.most = shutil.disk_usage(self.folder).used

    def watch(self) -> None:
        """Sample until `stop` is called."""
        while not self._over.wait(SAMPLE_S):
            self.most = max(self.most, shutil.disk_usage(self.folder).used)

    def stop(self) -> None:
        """End the sampling."""
        self._over.set()


def own_engine(paths: Paths) -> Paths:
    """Return the folders of the container engine that builds GPU images."""
    root = paths.cache / "gpu-images"
    return Paths(cache=root, run=root / "run")


@contextmanager
def engine(paths: Paths) -> Iterator[Paths]:
    """Run the container engine of the GPU images for as long as the block takes."""
    where = own_engine(paths)
    where.cache.mkdir(parents=True, exist_ok=True)
    daemon.start(where, *NO_NETWORKS)
    try:
        yield where
    finally:
        daemon.stop(where)


def make(paths: Paths) -> None:
    """Build the images that are absent, check those that serve, and print what they took."""
    machine.ensure_packages()
    with engine(paths) as where:
        _room(where)
        disk = Disk(where.cache)
        sampler = threading.Thread(target=disk.watch, daemon=True)
        sampler.start()
        try:
            for name in NAMES:
                _one(where, name)
        finally:
            disk.stop()
            sampler.join()
        say(f"disk: {gib(disk.most - disk.before)} at the peak above what was there before")
        for name in CHECKED:
            check(where, name)


def _room(where: Paths) -> None:
    absent = [name for name in NAMES if not scratch_images.exists(where, images.tag_of(name))]
    free_gib = shutil.disk_usage(where.cache).free / 2**30
    wanted_gib = sum(DISK_GIB[name] for name in absent)
    if free_gib < wanted_gib:
        raise BedError(
            f"{where.cache} has {free_gib:.0f} GiB free and the GPU images need {wanted_gib}: free some, or set "
            "WINDLASS_CACHE to a folder on a larger disk."
        )


def _one(where: Paths, name: str) -> None:
    started = time.monotonic()
    tag = images.ensure(where, name)
    seconds = time.monotonic() - started
    shutil.rmtree(where.cache / "rootfs", ignore_errors=True)  # the tree is in an image now
    size = int(daemon.docker(where, "image", "inspect", "--format", "{{.Size}}", tag))
    say(f"{tag}  {gib(size)}  {seconds:.0f} s")
    for layer in gpu_layers.sizes(where, tag):
        say(f"    {layer}")


def check(where: Paths, name: str) -> None:
    """Run every check of an image; raise BedError when one fails."""
    tag, wrong = images.tag_of(name), 0
    for row in gpu_image_checks.CHECKS[name]:
        problem = gpu_image_checks.run(where, tag, row)
        say(f"  {name} {row.name}: {problem or 'ok'}")
        wrong += bool(problem)
    if wrong:
        raise BedError(f"{wrong} checks of {tag} failed; the lines above say which.")


def gib(size: int) -> str:
    """Return a number of bytes as GiB."""
    return f"{size / 2**30:.2f} GiB"


def export(paths: Paths, name: str, target: Path) -> list[Path]:
    """Write the layer of a built image that holds our packages, and its variables, into a folder."""
    with engine(paths) as where:
        return gpu_layers.export(where, name, target)
