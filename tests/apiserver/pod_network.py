"""A node and its pods as network namespaces, joined as the test cluster joins them: routes, and a veth for each pod.

Nothing outside these namespaces is touched; all of them are deleted at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

GATEWAY = "10.77.0.1"
SILENCE_S = 0.4  # a pod on the same machine answers within a millisecond; packets that a policy drops never come back

LISTEN = """
import json, socket, sys
held = [socket.create_server(("", port)) for port in json.loads(sys.argv[1])]
print("listening", flush=True)
sys.stdin.read()
"""
ASK = (Path(__file__).parents[1] / "attack/network/asking.py").read_text()


@dataclass(frozen=True, slots=True)
class Network:
    """The namespaces of one node and its pods, pod → IPv4 address."""

    prefix: str
    pods: Mapping[str, str]

    def inside(self, name: str) -> tuple[str, ...]:
        """The words before a command that runs in the namespace of a pod, or of the node."""
        return ("ip", "netns", "exec", f"{self.prefix}{name}")

    def ask(self, source: str, targets: Sequence[tuple[str, int]]) -> list[str]:
        """What each (pod, port) says to the source: open, refused or silent."""
        rows = json.dumps([(self.pods[name], port) for name, port in targets])
        done = subprocess.run(
            [*self.inside(source), "/usr/bin/python3", "-c", ASK, rows, str(SILENCE_S)],
            capture_output=True,
            text=True,
            check=True,
        )
        return list(json.loads(done.stdout))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextmanager
def network(pods: Mapping[str, str], listening: Mapping[str, Sequence[int]]) -> Iterator[Network]:
    """A node named `node`, and pods that are routed through it and listen on their ports."""
    made = Network(f"wlpol{os.getpid()}-", pods)
    with ExitStack() as stack:
        for name in ("node", *pods):
            _ip("netns", "add", made.prefix + name)
            stack.callback(_ip, "netns", "delete", made.prefix + name)
        subprocess.run([*made.inside("node"), "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        _ip("-n", f"{made.prefix}node", "link", "set", "lo", "up")
        for index, (name, address) in enumerate(pods.items()):
            _join(made.prefix, name, address, f"pod{index}")
        for name, ports in listening.items():
            _listen(stack, made, name, ports)
        yield made


def _join(prefix: str, name: str, address: str, link: str) -> None:
    node, pod = f"{prefix}node", f"{prefix}{name}"
    _ip("-n", node, "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pod)
    _ip("-n", node, "address", "add", f"{GATEWAY}/32", "dev", link)
    _ip("-n", node, "link", "set", link, "up")
    _ip("-n", pod, "address", "add", f"{address}/32", "dev", "eth0")
    for one in ("lo", "eth0"):
        _ip("-n", pod, "link", "set", one, "up")
    _ip("-n", pod, "route", "add", GATEWAY, "dev", "eth0")
    _ip("-n", pod, "route", "add", "default", "via", GATEWAY)
    _ip("-n", node, "route", "add", f"{address}/32", "dev", link)


def _listen(stack: ExitStack, made: Network, name: str, ports: Sequence[int]) -> None:
    command = [*made.inside(name), "/usr/bin/python3", "-c", LISTEN, json.dumps(list(ports))]
    listener = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    assert listener.stdin
    assert listener.stdout
    stack.callback(listener.stdin.close)
    assert listener.stdout.readline() == "listening\n"
