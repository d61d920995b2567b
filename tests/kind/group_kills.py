"""Kills members of a group on a real cluster and watches how it comes back. Used by test_e2e_group and run_group_kills.

Nothing here is Windlass's own: kubectl, and the node's own tools inside the kind node.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from windlass_testbed import cluster, daemon
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths

BACK_S = 420.0
KUBELET_AWAY_S = 20.0
WATCH_S = 0.5
SERVING = "serving"
# Of every process that is the first of its container: the names that our pods are told.
ALIVE = """
for folder in /proc/[0-9]*; do
  grep -qs "^NSpid:.*[[:space:]]1$" $folder/status || continue
  names=$(tr "\\0" "\\n" < $folder/environ 2>/dev/null | grep -E "^WINDLASS_POD_(NAME|NAMESPACE)=" | sort -r)
  [ -n "$names" ] && echo $(echo "$names" | sed "s/.*=//")
done
true
"""


@dataclass(frozen=True)
class Member:
    """One pod of a group, as the API server and its own facts port have it."""

    name: str
    uid: str
    node: str
    ready: bool
    restarts: int
    container: str

    @property
    def index(self) -> int:
        return int(self.name.rpartition("-")[2])


@dataclass
class Watch:
    """What was seen of a group while it was hurt."""

    apart_s: float = 0.0
    """The longest time in which some members served and others did not."""
    twins: set[str] = field(default_factory=set)
    """Members of which two processes lived at a time, on whatever nodes: two incarnations."""


@dataclass(frozen=True)
class Group:
    """One replica of a service."""

    paths: Paths
    namespace: str
    service: str
    size: int = 2
    replica: int = 0

    def kubectl(self, *words: str) -> str:
        return cluster.kubectl(self.paths, "-n", self.namespace, *words)

    @property
    def selector(self) -> str:
        return f"serving.windlass.dev/service={self.service},serving.windlass.dev/replica={self.replica}"

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", "-l", self.selector, "-o", "json"))[
            "items"
        ]
        return found

    def members(self) -> list[Member]:
        """Those that are not being deleted, by index."""
        living = [pod for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]]
        return sorted(map(_member, living), key=lambda member: member.index)

    def facts(self, name: str) -> dict[str, Any]:
        """What the member's facts port shows, through the API server; nothing while it does not answer."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}:8502/proxy/windlass/facts"
        try:
            found: dict[str, Any] = json.loads(self.kubectl("get", "--raw", path))
        except (BedError, ValueError):
            return {}
        return found

    def serves(self) -> bool:
        """Whether every member is there, ready, and says that the group serves."""
        members = self.members()
        return len(members) == self.size and all(one.ready for one in members) and self.phases() == {SERVING}

    def phases(self) -> set[str]:
        return {str(self.facts(one.name).get("phase", "")) for one in self.members()}

    def wait(self, limit_s: float = BACK_S) -> float:
        """Seconds until it serves; TimeoutError with what was seen last."""
        began = time.monotonic()
        while time.monotonic() - began < limit_s:
            if self.serves():
                return time.monotonic() - began
            time.sleep(WATCH_S)  # clock: between two looks
        raise TimeoutError(f"{self.service} does not serve after {limit_s:.0f} s: {self.members()}, {self.phases()}")

    def supervisors(self) -> list[str]:
        """The pod's name of each member's first process that lives on any node."""
        found = [daemon.docker(self.paths, "exec", node, "bash", "-c", ALIVE) for node in cluster.WORKERS]
        rows = [line.split() for text in found for line in text.splitlines()]
        start = f"{self.service}-{self.replica}-"
        return [name for namespace, name in rows if namespace == self.namespace and name.startswith(start)]

    def on_node(self, member: Member, *command: str) -> None:
        """Run a command inside the kind node that the member runs on."""
        daemon.docker(self.paths, "exec", member.node, *command)


def _member(pod: dict[str, Any]) -> Member:
    meta, status = pod["metadata"], pod.get("status", {})
    ready = any(row["type"] == "Ready" and row["status"] == "True" for row in status.get("conditions", ()))
    rows = status.get("containerStatuses") or [{}]
    container = str(rows[0].get("containerID", "")).rpartition("/")[2]
    node = str(pod["spec"].get("nodeName", ""))
    return Member(meta["name"], meta["uid"], node, ready, int(rows[0].get("restartCount", 0)), container)


def kill_container(group: Group, member: Member) -> None:
    """SIGKILL for the member's first process, as the kernel does when memory is short."""
    group.on_node(member, "ctr", "--namespace=k8s.io", "task", "kill", "--signal=SIGKILL", member.container)


def kill_engine(group: Group, member: Member) -> None:
    """SIGKILL for all that the member's first process has started."""
    group.kubectl("exec", member.name, "--", "bash", "-c", "kill -9 -1")


def kill_pod(group: Group, member: Member) -> None:
    """Deleted with a second of grace: the name comes back with another uid."""
    group.kubectl("delete", "pod", member.name, "--grace-period=1", "--wait=false")


def kill_kubelet(group: Group, member: Member) -> None:
    """The node's kubelet stops, the member's container dies meanwhile, and the kubelet comes back later."""
    group.on_node(member, "systemctl", "stop", "kubelet")
    try:
        kill_container(group, member)
        time.sleep(KUBELET_AWAY_S)  # clock: the kubelet is away for so long
    finally:
        group.on_node(member, "systemctl", "start", "kubelet")


@dataclass(frozen=True)
class Kill:
    """One way to hurt a group."""

    name: str
    index: int
    act: Callable[[Group, Member], None]


KILLS = tuple(
    Kill(f"{who}'s {what}", index, act)
    for index, who in enumerate(("head", "follower"))
    for what, act in (
        ("container", kill_container),
        ("engine", kill_engine),
        ("pod", kill_pod),
        ("kubelet", kill_kubelet),
    )
)


@dataclass(frozen=True)
class Outcome:
    """What one kill did."""

    kill: str
    back_s: float
    apart_s: float
    restarts: tuple[int, ...]
    """Of each member: container restarts, or 1 for a new pod."""
    twins: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Each member came back once, and never beside an earlier self."""
        return set(self.restarts) == {1} and not self.twins


def hurt(group: Group, kill: Kill) -> Outcome:
    """Kill, and wait until the group serves again."""
    before = group.members()
    with watched(group) as seen:
        began = time.monotonic()
        kill.act(group, before[kill.index])
        _until_noticed(group, before)
        group.wait()
        back_s = time.monotonic() - began
    after = group.members()
    restarts = tuple(_restarts(old, new) for old, new in zip(before, after, strict=True))
    return Outcome(kill.name, back_s, seen.apart_s, restarts, tuple(sorted(seen.twins)))


def _until_noticed(group: Group, before: list[Member], limit_s: float = 90) -> None:
    """Until the API server shows that something happened: a kill is not over because nobody looked yet."""
    until = time.monotonic() + limit_s
    same = [(one.uid, one.container) for one in before]
    while [(one.uid, one.container) for one in group.members()] == same:
        if time.monotonic() > until:
            raise TimeoutError(f"nothing happened within {limit_s:.0f} s")
        time.sleep(WATCH_S)  # clock: between two looks


def _restarts(old: Member, new: Member) -> int:
    return 1 + new.restarts if new.uid != old.uid else new.restarts - old.restarts


@contextmanager
def watched(group: Group) -> Iterator[Watch]:
    """Look at pods and members all the time, on a thread."""
    seen, done = Watch(), threading.Event()
    thread = threading.Thread(target=_look, args=(group, seen, done))
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _look(group: Group, seen: Watch, done: threading.Event) -> None:
    apart_since: float | None = None
    while not done.wait(WATCH_S):  # clock: between two looks
        try:
            names = group.supervisors()
        except BedError:
            continue
        seen.twins |= {name for name in names if names.count(name) > 1}
        serving = [group.facts(name).get("phase") == SERVING for name in names]
        if any(serving) and not all(serving):
            apart_since = apart_since or time.monotonic()
            seen.apart_s = max(seen.apart_s, time.monotonic() - apart_since)
        else:
            apart_since = None


def renew(group: Group) -> None:
    """All pods anew, as a rollout does, so that the kubelet's back-off of one kill does not slow the next."""
    before = {one.uid for one in group.members()}
    group.kubectl("delete", "pods", "-l", group.selector, "--wait=false")
    until = time.monotonic() + BACK_S
    while {one.uid for one in group.members()} & before and time.monotonic() < until:
        time.sleep(WATCH_S)  # clock: between two looks
    group.wait()


def order(count: int, seed: int) -> list[Kill]:
    """So many kills in random order, each way as often as the others."""
    chosen = [KILLS[number % len(KILLS)] for number in range(count)]
    random.Random(seed).shuffle(chosen)  # noqa: S311 - an order, no secret
    return chosen
