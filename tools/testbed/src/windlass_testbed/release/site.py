"""`make demo-release`: the released bundle on the test cluster, as a site without internet installs it.

The nodes hold none of our images and reach nothing but the cluster's network. The bundle's own script loads a registry
there; both charts come out of it by digest, and so do the images of every pod.
"""

import json
import shutil
import time
from pathlib import Path

from windlass_testbed import (
    airgap,
    charts,
    cluster,
    daemon,
    demo,
    deploy,
    golang,
    images,
    licensing,
    machine,
    node_image,
    registry,
)
from windlass_testbed.cluster import kubectl
from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY, Paths
from windlass_testbed.process import phase, run, say
from windlass_testbed.release import make, signing, version

PATH = "windlass-site"
PLAIN = ("--plain-http",)


def run_demo(paths: Paths) -> None:
    """Check the bundle, load it, install from it, and ask the served model one question."""
    started = time.monotonic()
    machine.ensure_packages()
    cluster.check(paths)
    with phase("container engine"):
        daemon.start(paths)
    with phase("tools"):
        node_image.tools(paths)
        golang.ensure(paths, ("registry", "cosign"))
    with phase("checks of signature and sums"):
        file = released(make.DIST, version.read(REPOSITORY))
        signing.verify(paths, make.DIST, make.DIST / signing.PUBLIC)
    cluster.ensure(paths, [])
    with phase("registry"):
        address = f"{registry.start(paths)}/{PATH}"
        airgap.deny_egress(paths)
    with phase("bundle into the registry"):
        folder = load(paths, file, address)
    with phase("charts"):
        digests = install(paths, folder)
    shutil.rmtree(folder)  # the registry has it now
    demo.serve(paths)
    report(paths, address, [digests[name] for name in images.RELEASED])
    say(f"\nFrom the bundle to an answer: {time.monotonic() - started:.0f} s")


def released(dist: Path, number: str) -> Path:
    """Return the bundle of this version; BedError when `make release` did not make it."""
    file = dist / f"windlass-{number}.tar"
    if not file.exists():
        raise BedError(f"{file} is not there: run `make release` first.")
    return file


def load(paths: Paths, file: Path, address: str) -> Path:
    """Unpack the bundle and load it into the registry by its own script; return its folder."""
    place = paths.run / "site"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    run(["tar", "-xf", file, "-C", place], log="site")
    folder = place / file.stem
    env = {"HOME": str(place), "NO_PROXY": address.partition(":")[0]}
    say(run([folder / "load.sh", *PLAIN, address], log="site", env=env).rstrip())
    return folder


def install(paths: Paths, folder: Path) -> dict[str, str]:
    """Install both charts out of the registry, by their digests, console included; return the images' digests.

    The values are those that the script wrote.
    """
    source = dict(line.split() for line in (folder / "site/charts.txt").read_text().splitlines())
    digest = {row.split()[0]: row.split()[3] for row in (folder / "images.txt").read_text().splitlines()}

    def release(namespace: str, name: str, values: list[str], *more: str) -> None:
        flags = ("--values", str(folder / f"site/{name}.yaml"), *PLAIN, *more)
        charts.Release(paths, namespace, name, source[name]).install(values, flags)

    key = f"publicKeys[0]={licensing.signing_keys(paths) / 'public.pem'}"
    release(deploy.LICENSE_NAMESPACE, licensing.RELEASE, ["auth.adminToken="], "--set-file", key)
    # The cluster's GPUs are simulated: every pod runs the image for CPUs.
    simulated = ["server.image.repository=windlass/server-cpu", f"server.image.digest={digest['server-cpu']}"]
    release(deploy.SYSTEM_NAMESPACE, "windlass", [*simulated, "console.enabled=true"])
    return digest


def images_of(pods: str) -> list[str]:
    """Return the images that the containers of a list of pods name, in order."""
    specs = [item["spec"] for item in json.loads(pods)["items"]]
    return sorted({one["image"] for spec in specs for one in (*spec["containers"], *spec.get("initContainers", ()))})


def unused(found: list[str], digests: list[str]) -> list[str]:
    """The digests of released images that no pod runs."""
    return [digest for digest in digests if not any(image.endswith(digest) for image in found)]


def report(paths: Paths, address: str, digests: list[str]) -> None:
    """Print what the pods run and where it came from.

    BedError when a pod names no digest, a released image runs nowhere, or a packet was refused.
    """
    found = images_of(kubectl(paths, "get", "pods", "-A", "-l", "app.kubernetes.io/part-of=windlass", "-o", "json"))
    found += images_of(kubectl(paths, "-n", demo.NAMESPACE, "get", "pods", "-o", "json"))
    for image in dict.fromkeys(found):
        say(f"  {image}")
    if wrong := [image for image in found if not (image.startswith(address) and "@sha256:" in image)]:
        raise BedError(f"{wrong[0]} is no image of {address} by its digest: see `kubectl get pods -A -o wide`.")
    if idle := unused(found, digests):
        raise BedError(f"no pod runs the released image {idle[0]}: see `kubectl get pods -A -o wide`.")
    for repository, count in registry.pulled(registry.log(paths)).items():
        say(f"  {count:3} blobs of {repository} fetched by nodes")
    counts = airgap.refusals(paths)
    say(f"  packets refused on their way out: {', '.join(f'{node} {count}' for node, count in counts.items())}")
    if any(counts.values()):
        raise BedError("a packet tried to leave the cluster: see `iptables -nvxL WINDLASS-NO-EGRESS` on the node.")
