"""`make push REGISTRY=…`: the images of this checkout into a registry, under the one tag that the charts ask for."""

import os
from pathlib import Path

from windlass_testbed import daemon, deploy, gpu_images, images, machine
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import run, say, working
from windlass_testbed.release import version

GPU_NAMES = ("server", "deepspeed-gpu")


def push(paths: Paths, registry: str, *, gpu: bool) -> None:
    """Build what is missing, push it, and print each image by its digest and the value that the charts want.

    With `gpu` also the images for GPUs, which `make images-gpu` builds in an engine of their own.
    """
    check(registry)
    machine.ensure_packages()
    daemon.start(paths)
    number = version.read(REPOSITORY)
    for name, tag in deploy.prepare_images(paths).tags.items():
        if name in images.RELEASED:
            _push_one(paths, tag, target(registry, name, number))
    if gpu:
        gpu_images.make(paths)
        with gpu_images.engine(paths) as where:
            for name in GPU_NAMES:
                _push_one(where, images.tag_of(name), target(registry, name, number))
    say(f"\nBoth charts take them by: --set global.repository={registry}")


def check(registry: str) -> None:
    """BedError for what is no registry and path."""
    if not registry or "://" in registry or registry != registry.strip("/ "):
        raise BedError(
            f"REGISTRY is {registry!r}; name a registry and a path without a scheme, as "
            "`make push REGISTRY=registry.example.com/team`."
        )


def target(registry: str, name: str, number: str) -> str:
    """The name of an image in the registry, as the charts write it."""
    return f"{registry}/windlass/{name}:{number}"


def _push_one(paths: Paths, tag: str, name: str) -> None:
    daemon.docker(paths, "tag", tag, name)
    # Who may push is written in the user's own configuration, by `docker login`.
    config = os.environ.get("DOCKER_CONFIG") or str(Path.home() / ".docker")
    with working(f"pushing {name}"):
        output = run(
            ["/usr/bin/docker", "push", name], log="push", env={**daemon.docker_env(paths), "DOCKER_CONFIG": config}
        )
    say(f"  {name}@{digest(output)}")


def digest(output: str) -> str:
    """The digest that `docker push` prints in its last line; BedError where it printed none."""
    found = [word for word in output.split() if word.startswith("sha256:")]
    if not found:
        raise BedError("`docker push` printed no digest; see push.log beside the other logs.")
    return found[-1]
