"""`make test-published`: a cluster from a published node image, by its digest, out of a registry on this machine.

The image is ours, pushed into CNCF's distribution as a registry would hold kind's. Everything else begins with an empty
cache and an empty container engine: the probe, the pull by digest, kubectl out of the image, the cluster. The cluster
and the engine that are up are taken away before, since two engines share one packet filter.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping

from windlass_testbed import cluster, daemon, demo, golang, machine, node_image, published, registry
from windlass_testbed.daemon import docker
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, Paths, paths
from windlass_testbed.process import say
from windlass_testbed.versions import KUBERNETES, PUBLISHED_TOOLS, TOOL

REPOSITORY_NAME = "kindest/node"
DIGEST = re.compile(r"digest: (sha256:[0-9a-f]{64})")


def push(where: Paths, image: str, address: str) -> str:
    """Push an image under the name that a registry would have it by; return its reference with the digest."""
    name = f"{address}/{REPOSITORY_NAME}:{KUBERNETES}"
    docker(where, "tag", image, name)
    found = DIGEST.search(docker(where, "push", name))
    docker(where, "rmi", name)
    if not found:
        raise BedError(f"`docker push {name}` named no digest: see {where.logs / 'docker.log'}.")
    return f"{name}@{found[1]}"


def ran(command: str, environment: Mapping[str, str]) -> str:
    """Run a command of the test cluster and show what it says, each line with its second; return the text."""
    words = [sys.executable, "-m", "windlass_testbed", command]
    began, lines = time.monotonic(), list[str]()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}) as process:
        for line in process.stdout or ():
            lines.append(line)
            say(f"{time.monotonic() - began:6.1f}  {line.rstrip()}")
    if process.returncode:
        raise BedError(f"`{command}` ended with {process.returncode}")
    return "".join(lines)


def wrong(where: Paths, image: str, text: str) -> list[str]:
    """What is not as it shall be: the choice, the nodes and their image, programs that were compiled."""
    digest = image.rpartition("@")[2]
    found = [] if f"node image: {image}, since its registry answered" in text else ["the choice was not said"]
    # Without --no-trunc the engine leaves the digest out.
    nodes = docker(where, "ps", "--no-trunc", "--format", "{{.Image}}", "--filter", f"name={cluster.NAME}-").split()
    found += [f"a node runs {one}" for one in nodes if not one.endswith(digest)]
    found += [] if len(nodes) == 1 + len(cluster.WORKERS) else [f"{len(nodes)} nodes"]
    allowed = {TOOL[name].file for name in (*PUBLISHED_TOOLS, "policyagent")}
    built = {folder.name.rpartition("-")[0] for folder in (where.cache / "go-tools").iterdir()}
    found += [f"{name} was compiled" for name in sorted(built - allowed)]
    items = json.loads(cluster.kubectl(where, "get", "nodes", "-o", "json"))["items"]
    versions = {item["status"]["nodeInfo"]["kubeletVersion"] for item in items}
    return found + ([] if versions == {KUBERNETES} else [f"the nodes run Kubernetes {sorted(versions)}"])


def main(words: list[str]) -> int:
    """Push, take everything away, begin with nothing, look, take away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", choices=("up", "demo"), default="up")
    parser.add_argument("--cold", action="store_true", help="compile with an empty cache of Go, too")
    asked = parser.parse_args(words)
    os.environ[published.WAY] = published.BUILT
    machine.ensure_packages()
    usual = paths()
    daemon.start(usual)
    golang.ensure(usual, ("registry",))
    node_image.tools(usual)
    folder = REPOSITORY / ".cache/published"
    shutil.rmtree(folder, ignore_errors=True)
    second = Paths(folder / "windlass", folder / "windlass/run")
    with registry.on_this_machine(usual.bin / "registry", folder / "registry") as address:
        image = push(usual, node_image.ensure(usual), address)
        demo.delete(usual)
        environment = {"WINDLASS_CACHE": str(second.cache), published.WAY: published.AUTO, published.IMAGE: image}
        environment |= {"GOCACHE": str(folder / "go-build")} if asked.cold else {}
        try:
            found = wrong(second, image, ran(asked.command, environment))
        finally:
            demo.delete(second)
    gone = published.probe(image)
    found += [] if gone.missing else ["a registry that is gone still answers"]
    say(f"without the registry: {gone.missing}, after {gone.seconds:.2f} s")
    for one in found:
        say(f"wrong: {one}")
    shutil.rmtree(folder, ignore_errors=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
