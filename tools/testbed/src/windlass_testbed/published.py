"""Which node image the cluster stands on: kind's published one by its digest, or one that is built here.

A registry is asked once and gets two seconds. A machine that has built the programs already, or runs a cluster, keeps
what it has and asks nobody. Called by `node_image`, after the container engine is up.
"""

import http.client
import os
import queue
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from windlass_testbed import golang
from windlass_testbed.daemon import docker, docker_env
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths
from windlass_testbed.process import say, succeeds
from windlass_testbed.versions import CLUSTER_TOOLS, PUBLISHED_NODE

CLUSTER = "windlass"
"""kind's name of the cluster."""
WAY, IMAGE = "WINDLASS_NODE", "WINDLASS_NODE_IMAGE"
AUTO, PUBLISHED, BUILT = "auto", "published", "built"
PROBE_S = 2.0
DOCKER_HUB = ("docker.io", "registry-1.docker.io")
MANIFESTS = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        *("oci.image.index.v1", "oci.image.manifest.v1"),
        *("docker.distribution.manifest.list.v2", "docker.distribution.manifest.v2"),
    )
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The reference of a published node image, or an empty one where the image is built here; and why."""

    image: str
    because: str
    forced: bool = False
    asked: bool = False
    """A registry was asked."""

    @property
    def line(self) -> str:
        """What the user reads."""
        return f"node image: {self.image or 'built here'}, {self.because}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the environment asks for."""

    way: str
    image: str


def wanted(environment: Mapping[str, str]) -> Wanted:
    """Read the switch and the image; an image that is named alone is taken without a probe."""
    image = environment.get(IMAGE, "")
    way = environment.get(WAY, "") or (PUBLISHED if image else AUTO)
    if way not in (AUTO, PUBLISHED, BUILT):
        raise BedError(f'{WAY}="{way}" is no way to a node image: it is {AUTO}, {PUBLISHED} or {BUILT}.')
    if image and "@sha256:" not in image:
        raise BedError(f'{IMAGE}="{image}" has no digest: write name:tag@sha256:… as `docker images --digests` has it.')
    return Wanted(way, image or PUBLISHED_NODE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a registry said of an image within the time; `missing` is the reason where it does not offer it."""

    seconds: float
    missing: str = ""


def choose(asked: Wanted, running: str | None, *, built: bool, probe: Callable[[str], Answer]) -> Choice:
    """Decide; `running` is what a cluster stands on (empty: built here), `built` says whether the programs are."""
    if asked.way == BUILT:
        return Choice("", f"as {WAY} asks", forced=True)
    if asked.way == PUBLISHED:
        return Choice(asked.image, "as the environment asks", forced=True)
    if running is not None:
        same = running.rpartition("@")[2] == asked.image.rpartition("@")[2]  # kind drops the tag
        return Choice(asked.image if same else running, "as the cluster that is up")
    if built:
        return Choice("", "since its programs are in the cache")
    answer = probe(asked.image)
    if answer.missing:
        return Choice("", f"since {answer.missing}", asked=True)
    return Choice(asked.image, f"since its registry answered after {answer.seconds:.1f} s", asked=True)


def host_and_path(image: str) -> tuple[str, str]:
    """Return the host of an image's registry, and the path of its manifest there."""
    name, _, digest = image.partition("@")
    first, _, rest = name.partition("/")
    if not (rest and ("." in first or ":" in first or first == "localhost")):
        first, rest = DOCKER_HUB[0], name if rest else f"library/{name}"
    repository, tag = rest.rpartition("/")[::2]
    repository = f"{repository}/{tag.partition(':')[0]}".lstrip("/")
    return (DOCKER_HUB[1] if first == DOCKER_HUB[0] else first), f"/v2/{repository}/manifests/{digest}"


def probe(image: str, within_s: float = PROBE_S) -> Answer:
    """Ask the registry of an image whether it has it; never longer than this, its name's resolution included."""
    host, path = host_and_path(image)
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    asking = threading.Thread(target=lambda: answers.put(_missing(host, path, within_s)), daemon=True)
    began = time.monotonic()
    asking.start()
    try:
        missing = answers.get(timeout=within_s)
    except queue.Empty:
        missing = f"{host} did not answer within {within_s:g} s"
    return Answer(time.monotonic() - began, missing)


def _missing(host: str, path: str, within_s: float) -> str:
    """Why the registry does not offer the manifest; empty where it does, or asks for a token that the engine gets."""
    # As the container engine does: a registry of this machine speaks plain HTTP.
    scheme = "http" if host.partition(":")[0] in ("localhost", "127.0.0.1") else "https"
    request = urllib.request.Request(f"{scheme}://{host}{path}", method="HEAD", headers={"Accept": MANIFESTS})
    try:
        with urllib.request.urlopen(request, timeout=within_s):
            return ""
    except urllib.error.HTTPError as error:
        return "" if error.code == 401 else f"{host} answers with HTTP {error.code}"
    except TimeoutError:
        return f"{host} did not answer within {within_s:g} s"
    except (OSError, http.client.HTTPException) as error:
        return f"{host} cannot be reached: {getattr(error, 'reason', None) or error or type(error).__name__}"


_CHOSEN: dict[Paths, Choice] = {}
_ONE_AT_A_TIME = threading.Lock()


def chosen(paths: Paths) -> Choice:
    """Return the choice, made once a process; a published image is in the container engine then."""
    with _ONE_AT_A_TIME:
        if paths not in _CHOSEN:
            built = all(golang.is_built(paths, name) for name in CLUSTER_TOOLS)
            choice = choose(wanted(os.environ), running(paths), built=built, probe=probe)
            _CHOSEN[paths] = _pulled(paths, choice)
            if choice.image or choice.asked or choice.forced:  # what was there before is no news
                say(f"  {_CHOSEN[paths].line}")
        return _CHOSEN[paths]


def _pulled(paths: Paths, choice: Choice) -> Choice:
    """Pull the image by its digest; where that fails and nobody asked for it, build here."""
    if not choice.image or succeeds(["/usr/bin/docker", "image", "inspect", choice.image], docker_env(paths)):
        return choice
    say(f"  pulling {choice.image}")
    try:
        docker(paths, "pull", "--quiet", choice.image)
    except BedError as error:
        if choice.forced:
            raise
        return Choice("", f"since the pull failed: {error}")
    return choice


def running(paths: Paths) -> str | None:
    """Return the published image that the cluster stands on, empty for one built here; None without a cluster."""
    try:
        image = docker(paths, "inspect", "--format", "{{.Config.Image}}", f"{CLUSTER}-control-plane").strip()
    except BedError:
        return None
    return image if "@sha256:" in image else ""


def take_kubectl(paths: Paths, image: str) -> None:
    """Take kubectl out of the published node image: one digest names both."""
    home = paths.cache / "node-programs" / image.rpartition(":")[2]
    if not (home / "kubectl").exists():
        home.mkdir(parents=True, exist_ok=True)
        name = "windlass-node-programs"
        succeeds(["/usr/bin/docker", "rm", "-f", "-v", name], docker_env(paths))
        docker(paths, "create", "--name", name, image)
        try:
            docker(paths, "cp", "--follow-link", f"{name}:/usr/bin/kubectl", home / "kubectl.part")
        finally:
            docker(paths, "rm", "-v", name)
        shutil.move(home / "kubectl.part", home / "kubectl")
    golang.link(paths, "kubectl", home / "kubectl")
