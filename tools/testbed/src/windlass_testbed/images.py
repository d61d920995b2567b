"""The project's own images, built from `images/` with our daemon and tagged by the content they were built from."""

import os
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed import content, rootfs, scratch_images
from windlass_testbed.daemon import docker
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import working
from windlass_testbed.versions import DEBIAN_SUITE, DEBIAN_SUITE_GPU

CA_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt",)


@dataclass(frozen=True, slots=True)
class Image:
    """One image: its Dockerfile, what is copied into it, and the image that it stands on.

    `base` and `build` name another image or a Python base; `build` is the image of the build stage where that is not
    the base (argument BUILD_IMAGE). `arguments` are further build arguments.
    """

    name: str
    dockerfile: str
    sources: tuple[str, ...]
    base: str = "python"
    base_argument: str = "BASE_IMAGE"
    build: str = ""
    arguments: tuple[tuple[str, str], ...] = ()


def sources(*folders: str) -> tuple[str, ...]:
    """Return what goes into an image of each distribution: its package and its pyproject.toml."""
    return tuple(f"{folder}/{part}" for folder in folders for part in ("src", "pyproject.toml"))


# Our Python bases by name: the suite of Debian each is made of.
PYTHON_BASES = {"python": DEBIAN_SUITE, "python-gpu": DEBIAN_SUITE_GPU}
CORE = tuple(f"server/lookahead/{part}" for part in ("CMakeLists.txt", "core", "pyproject.toml", "src"))
SERVER = sources("server", "lib/sizing", "lib/base")
MODEL_INFOS = "images/model_infos.py"
ENGINE_GPU = ("images/engine-gpu/Dockerfile", "images/engine-gpu/install", "images/engine-gpu/part.py")

IMAGES: tuple[Image, ...] = (
    Image("operator", "images/operator/Dockerfile", ("images/operator", "images/build.lock",
          *sources("operator", "operator/download", "lib/api", "lib/sizing", "lib/base"))),
    Image("license-server", "images/license-server/Dockerfile", ("images/license-server", "images/build.lock",
          *sources("license_server", "lib/base"))),
    Image("console", "images/console/Dockerfile", ("images/console", "images/build.lock",
          *sources("clients/console", "clients/client", "lib/api", "lib/sizing", "lib/base"))),
    Image("engine-cpu", "images/server-cpu/engine.Dockerfile", ("images/server-cpu/engine.Dockerfile",
          "images/server-cpu/requirements.lock", "images/server-cpu/trim.py", MODEL_INFOS)),
    Image("server-cpu", "images/server-cpu/Dockerfile", ("images/server-cpu/Dockerfile", "images/build.lock",
          *CORE, *SERVER), "engine-cpu", "ENGINE_IMAGE"),
    Image("server-cpu-avx2", "images/server-cpu/avx2.Dockerfile", ("images/server-cpu/avx2.Dockerfile",), "server-cpu",
          "SERVER_IMAGE"),
    Image("deepspeed", "images/deepspeed/Dockerfile", ("images/deepspeed", "images/build.lock",
          *sources("server/deepspeed"), *SERVER), "engine-cpu", "ENGINE_IMAGE"),
    Image("engine-gpu", "images/engine-gpu/Dockerfile", (*ENGINE_GPU, "images/engine-gpu/vllm.lock"), "python-gpu",
          arguments=(("LOCK", "vllm"),)),
    Image("server", "images/server/Dockerfile", ("images/server", "images/build.lock", MODEL_INFOS, *CORE,
          *SERVER), "engine-gpu", "ENGINE_IMAGE", "python-gpu"),
    Image("engine-deepspeed-gpu", "images/engine-gpu/Dockerfile", (*ENGINE_GPU, "images/engine-gpu/deepspeed.lock"),
          "python-gpu", arguments=(("LOCK", "deepspeed"),)),
    Image("deepspeed-gpu", "images/deepspeed/Dockerfile.gpu", ("images/deepspeed", "images/build.lock",
          *sources("server/deepspeed"), *SERVER), "engine-deepspeed-gpu", "ENGINE_IMAGE", "python-gpu"),
)  # fmt: skip
IMAGE = {image.name: image for image in IMAGES}
# What the first release had, and what a cluster without GPUs runs today.
SERVED = ("operator", "license-server", "server-cpu")
RELEASED = (*SERVED, "console")


def tag(image: Image) -> str:
    """Return the image's tag: its name and the key of everything that goes into it, its bases included."""
    below = [tag_of(name) for name in (image.base, image.build) if name]
    words = [word for argument in image.arguments for word in argument]
    key = content.key(*below, *words, *(REPOSITORY / source for source in image.sources))
    return f"windlass/{image.name}:dev-{key}"


def tag_of(name: str) -> str:
    """Return the tag of an image or of a Python base by its name."""
    return python_tag(PYTHON_BASES[name]) if name in PYTHON_BASES else tag(IMAGE[name])


def python_tag(suite: str = DEBIAN_SUITE) -> str:
    """Return the tag of a Python base image: Debian with Python and pip, as the published one has them."""
    key = content.key(suite, *rootfs.PYTHON_PACKAGES, Path(rootfs.__file__))
    return f"windlass-base/python:{key}"


def ensure(paths: Paths, name: str) -> str:
    """Return the tag of an image, built when our daemon does not hold it; its bases are made first."""
    if name in PYTHON_BASES:
        return _python_base(paths, PYTHON_BASES[name])
    image = IMAGE[name]
    wanted = tag(image)
    if not scratch_images.exists(paths, wanted):
        base = ensure(paths, image.base)
        build = ensure(paths, image.build) if image.build else ""
        with working(f"building {wanted}"):
            _build(paths, image, wanted, ((image.base_argument, base), ("BUILD_IMAGE", build)))
    return wanted


def build_from(paths: Paths, image: Image, wanted: str, root: Path) -> None:
    """Build an image by the Dockerfile and the sources of another tree of the repository, on today's base."""
    _build(paths, image, wanted, ((image.base_argument, ensure(paths, image.base)),), root=root)


def _python_base(paths: Paths, suite: str) -> str:
    wanted = python_tag(suite)
    if not scratch_images.exists(paths, wanted):
        scratch_images.import_tree(paths, rootfs.tree(paths, rootfs.PYTHON_PACKAGES, suite), wanted)
    return wanted


def build_stage(paths: Paths, name: str, stage: str) -> str:
    """Build one stage of an image's Dockerfile, above bases that are made first where it needs them; return its tag."""
    image = IMAGE[name]
    wanted = f"{tag(image)}-{stage}"
    below = image.build or image.base  # the build stage never stands on the engine where it has a base of its own
    argument = "BUILD_IMAGE" if image.build else image.base_argument
    _build(paths, image, wanted, ((argument, ensure(paths, below)),), stage)
    return wanted


def _build(
    paths: Paths,
    image: Image,
    wanted: str,
    bases: tuple[tuple[str, str], ...],
    stage: str = "",
    root: Path = REPOSITORY,
) -> None:
    command: list[str | Path] = ["build", "--network", "host", "-f", root / image.dockerfile, "-t", wanted]
    command += ["--target", stage] if stage else []
    for argument, value in (*bases, *image.arguments):
        command += ["--build-arg", f"{argument}={value}"] if value else []
    bundle = _ca_bundle()
    if bundle:
        command += ["--secret", f"id=ca,src={bundle}"]
    docker(paths, *command, root, log="build")


def _ca_bundle() -> str | None:
    """Return this machine's CA bundle: TLS may be re-signed here, so builds get it as a secret, never as a layer."""
    candidates = (os.environ.get("SSL_CERT_FILE"), *CA_BUNDLES)
    return next((path for path in candidates if path and Path(path).is_file()), None)
