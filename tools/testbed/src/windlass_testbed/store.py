"""A node's image store with large images already in it, made once and cloned by hard links.

Loading a serving image of several GB into a new node takes minutes and twice its size. A store is a containerd root
filled once per content key; a node gets a clone whose files are hard links (contents in it are never changed in
place) and its own copy of the databases, so that a new cluster costs seconds and no disk.
"""

import shutil
from pathlib import Path

from windlass_testbed import content
from windlass_testbed.daemon import docker, docker_env
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.process import pipe, run, say

FILL_SCRIPT = """
set -eu
cp -a /var/lib/containerd/. /store/
containerd --root /store >/tmp/containerd.log 2>&1 & daemon=$!
for _ in $(seq 100); do ctr version >/dev/null 2>&1 && break; sleep 0.2; done
ctr --namespace=k8s.io images import -
kill $daemon; wait $daemon || true
"""


def ensure(paths: Paths, node_image: str, images: list[str]) -> Path:
    """Return a filled containerd root for nodes of this image that holds the given images, unpacked."""
    ids = [docker(paths, "image", "inspect", "--format", "{{.Id}}", name).strip() for name in images]
    key = content.key(docker(paths, "image", "inspect", "--format", "{{.Id}}", node_image), *images, *ids, FILL_SCRIPT)
    return content.once(paths.cache / "stores" / key, lambda target: _fill(paths, node_image, images, target))


def _fill(paths: Paths, node_image: str, images: list[str], target: Path) -> None:
    say(f"  filling an image store with {', '.join(images)}")
    for old in target.parent.iterdir():
        shutil.rmtree(old)
    target.mkdir(parents=True)
    flags = ["--rm", "--interactive", "--privileged", "--network", "none", "--tmpfs", "/run", "--entrypoint", "bash"]
    command = ["/usr/bin/docker", "run", *flags, "-v", f"{target}:/store", node_image, "-c", FILL_SCRIPT]
    save_into(paths, images, command)


def save_into(paths: Paths, images: list[str], command: list[str]) -> None:
    """Stream `docker save` of the images into a program's standard input, without a file in between."""
    env = docker_env(paths)
    if error := pipe(["/usr/bin/docker", "save", *images], command, env):
        raise BedError(f"images {', '.join(images)} could not be loaded: {error}")


def clone(store: Path, target: Path) -> Path:
    """Clone a store: hard links for its contents, copies of its databases (the only files written in place)."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    run(["cp", "--archive", "--link", store, target], log="store")
    for database in target.rglob("*.db"):
        copy = database.with_suffix(".copy")
        shutil.copy2(database, copy)
        copy.replace(database)
    return target
