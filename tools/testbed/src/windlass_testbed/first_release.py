"""The first release, 0.1.0: images and charts of its commit, built from a git archive by today's builder.

`tests/kind/run_upgrade.py` upgrades from it and goes back to it.
"""

import sys
from pathlib import Path

from windlass_testbed import cluster, content, images, scratch_images
from windlass_testbed.errors import BedError
from windlass_testbed.loading import load, load_on_base, stands_on
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import run, say

COMMIT = "dde151373dea52120fc8ba66837a0de0c6480a96"
VERSION = "0.1.0"
# What the engine's layer of the CPU image is made from. Its Dockerfile had no descriptions of model classes.
ENGINE = ("images/server-cpu/requirements.lock", "images/server-cpu/trim.py")


def tree(paths: Paths) -> Path:
    """Return the commit's tree, unpacked once."""
    return content.once(paths.cache / "releases" / COMMIT, _unpack)


def _unpack(target: Path) -> None:
    target.mkdir(parents=True)
    archive = target / "tree.tar"
    run(["git", "-C", REPOSITORY, "archive", "--format=tar", f"--output={archive}", COMMIT], log="release")
    run(["tar", "-xf", archive, "-C", target], log="release")
    archive.unlink()


def image(name: str) -> str:
    """Return the tag of one of its images."""
    return f"windlass/{name}:{VERSION}"


def build(paths: Paths, engine: str) -> None:
    """Build its images where our daemon lacks them; the CPU image stands on today's `engine`, which is its own."""
    root = tree(paths)
    for file in ENGINE:
        if (root / file).read_bytes() != (REPOSITORY / file).read_bytes():
            raise BedError(f"{file} is no longer that of {VERSION}: its engine has to be built, too.")
    for name in images.SERVED:
        is_there = scratch_images.exists(paths, image(name))
        if not is_there or (name == "server-cpu" and not stands_on(paths, image(name), engine)):
            say(f"  building {image(name)}")
            images.build_from(paths, images.IMAGE[name], image(name), root)


def load_images(paths: Paths, engine: str) -> None:
    """Load its images into the workers, which hold the engine."""
    for name in images.SERVED:
        if name == "server-cpu":
            load_on_base(paths, image(name), engine, list(cluster.WORKERS))
        else:
            load(paths, image(name), list(cluster.WORKERS))


ISSUE = "import sys; from windlass_license.cli import main; sys.exit(main(sys.argv[1:]))"


def issue(paths: Paths, gpus: str, key: Path) -> Path:
    """Issue a license for `nvidia-smi -L` lines by the release's own code: it refuses what a later one writes."""
    listing, out = paths.run / "license-first.gpus", paths.run / "license-first.dat"
    listing.write_text(gpus)
    out.unlink(missing_ok=True)
    words = [
        "issue",
        "--gpus",
        str(listing),
        "--customer",
        "demo",
        "--appid",
        "1",
        "--expires",
        "2036-01-01T00:00:00+00:00",
    ]
    env = {"PYTHONPATH": str(tree(paths) / "license_server/src")}
    run([sys.executable, "-c", ISSUE, *words, "--key", key, "--out", out], log="license", env=env)
    return out
