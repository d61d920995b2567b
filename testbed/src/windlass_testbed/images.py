"""The project's own images, built from `images/` with our daemon and tagged by the content they were built from."""

import os
from dataclasses import dataclass
from pathlib import Path

from windlass_testbed import content, rootfs, scratch_images
from windlass_testbed.daemon import docker
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import say
from windlass_testbed.versions import DEBIAN_SUITE

CA_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt",)


@dataclass(frozen=True, slots=True)
class Image:
    """One image: its Dockerfile, what is copied into it, and the image that it stands on (none: the Python base)."""

    name: str
    dockerfile: str
    sources: tuple[str, ...]
    base: str = "python"
    base_argument: str = "BASE_IMAGE"


IMAGES: tuple[Image, ...] = (
    Image("operator", "images/operator/Dockerfile", ("images/operator", "images/build.lock", "operator/src",
          "operator/pyproject.toml", "sizing/src", "sizing/pyproject.toml")),
    Image("license-server", "images/license-server/Dockerfile", ("images/license-server", "images/build.lock",
          "license_server/src", "license_server/pyproject.toml")),
    Image("engine-cpu", "images/server-cpu/engine.Dockerfile", ("images/server-cpu/engine.Dockerfile",
          "images/server-cpu/requirements.lock", "images/server-cpu/trim.py")),
    Image("server-cpu", "images/server-cpu/Dockerfile", ("images/server-cpu/Dockerfile", "images/build.lock",
          "server/lookahead/CMakeLists.txt", "server/lookahead/core", "server/lookahead/pyproject.toml",
          "server/lookahead/src", "server/src", "server/pyproject.toml", "sizing/src", "sizing/pyproject.toml"),
          "engine-cpu", "ENGINE_IMAGE"),
    Image("deepspeed", "images/deepspeed/Dockerfile", ("images/deepspeed", "images/build.lock", "deepspeed_server/src",
          "deepspeed_server/pyproject.toml", "server/src", "server/pyproject.toml", "sizing/src",
          "sizing/pyproject.toml"), "engine-cpu", "ENGINE_IMAGE"),
)  # fmt: skip
IMAGE = {image.name: image for image in IMAGES}
SERVED = ("operator", "license-server", "server-cpu")


def tag(image: Image) -> str:
    """Return the image's tag: its name and the key of everything that goes into it, its base included."""
    base = python_tag() if image.base == "python" else tag(IMAGE[image.base])
    key = content.key(base, *(REPOSITORY / source for source in image.sources))
    return f"windlass/{image.name}:dev-{key}"


def python_tag() -> str:
    """Return the tag of the Python base image: Debian with Python and pip, as the published one has them."""
    key = content.key(DEBIAN_SUITE, *rootfs.PYTHON_PACKAGES, Path(rootfs.__file__))
    return f"windlass-base/python:{key}"


def ensure(paths: Paths, name: str) -> str:
    """Return the tag of an image, built when our daemon does not hold it; its base is made first."""
    image = IMAGE[name]
    wanted = tag(image)
    if not scratch_images.exists(paths, wanted):
        base = _python_base(paths) if image.base == "python" else ensure(paths, image.base)
        say(f"  building {wanted}")
        _build(paths, image, wanted, base)
    return wanted


def _python_base(paths: Paths) -> str:
    wanted = python_tag()
    if not scratch_images.exists(paths, wanted):
        scratch_images.import_tree(paths, rootfs.tree(paths, rootfs.PYTHON_PACKAGES), wanted)
    return wanted


def _build(paths: Paths, image: Image, wanted: str, base: str) -> None:
    command: list[str | Path] = ["build", "--network", "host", "-f", REPOSITORY / image.dockerfile, "-t", wanted]
    command += ["--build-arg", f"{image.base_argument}={base}"]
    bundle = _ca_bundle()
    if bundle:
        command += ["--secret", f"id=ca,src={bundle}"]
    docker(paths, *command, REPOSITORY, log="build")


def _ca_bundle() -> str | None:
    """Return this machine's CA bundle: TLS may be re-signed here, so builds get it as a secret, never as a layer."""
    candidates = (os.environ.get("SSL_CERT_FILE"), *CA_BUNDLES)
    return next((path for path in candidates if path and Path(path).is_file()), None)
