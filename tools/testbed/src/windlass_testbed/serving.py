"""Python inside the CPU serving image, without a cluster: how tests and benchmarks reach real torch and vLLM."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from windlass_testbed import daemon, images, instruction_sets, machine, node_image
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, Paths

WORK = Path(".cache/demo-model")


def ensure(paths: Paths, name: str = "server-cpu") -> str:
    """Start our container engine, build the image when absent, return its tag."""
    machine.ensure_packages()
    machine.check(paths, machine.ENGINE)
    daemon.start(paths)
    node_image.tools(paths)
    return images.ensure(paths, instruction_sets.image_name(name, os.environ))


def python_command(
    image: str,
    words: Sequence[str],
    mounts: Mapping[Path, str],
    variables: Mapping[str, str] | None = None,
    more: Sequence[str] = (),
) -> list[str]:
    """The command that runs Python as root without a network, the repository read-only at /repo; `more` is docker's."""
    volumes = {str(REPOSITORY): "/repo:ro", **{str(path): target for path, target in mounts.items()}}
    flags = ["--rm", "--network", "none", "--user", "0", "--workdir", "/tmp", "--entrypoint", "python3"]  # noqa: S108 - in the container
    flags += ["--shm-size", "1g"]  # an engine takes 160 MiB of it, and a benchmark starts several
    flags += [word for source, target in volumes.items() for word in ("--volume", f"{source}:{target}")]
    flags += [word for name, value in (variables or {}).items() for word in ("--env", f"{name}={value}")]
    return ["/usr/bin/docker", "run", *flags, *more, image, *words]


def python(paths: Paths, words: Sequence[str]) -> None:
    """Run Python in the image on this terminal, with the demo model's data at /work."""
    tag = ensure(paths)
    work = REPOSITORY / WORK
    work.mkdir(parents=True, exist_ok=True)
    command = python_command(tag, words, {work: "/work"})
    if code := subprocess.run(command, env=os.environ | daemon.docker_env(paths), check=False).returncode:
        raise BedError(f"{' '.join(words)} exited with {code}")
