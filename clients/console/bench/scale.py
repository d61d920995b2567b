"""`make scale-console N=1000`: the console before N LLMServices that the real operator has brought up.

etcd, API server, controllers, scheduler, operator and console are real processes; kwok simulates the kubelets. It
prints a table: the first list, the first rows of the live list, and how many updates a second reach one watcher and
twenty watchers of twenty users, with the time from the write to the watcher, memory and processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(REPOSITORY / "operator" / "bench" / "scale"), str(Path(__file__).parent)]

from bed import Bed, control_plane, operator, process, running_bed  # noqa: E402 - the paths above come first
from kubelets import facts_port  # noqa: E402
from load import GROUP, Cluster, make_namespaces, make_nodes, make_services, namespace, reasons  # noqa: E402
from measure import Process  # noqa: E402
from watchers import Watcher  # noqa: E402

RATES = (50, 100, 200)  # writes a second
WATCHERS = (1, 20)
WRITE_S = 10.0  # seconds of writing at each rate
SETTLE_S = 45.0  # that the last update may take
LISTS = 5  # of which the median is told
READY_S, RUNNING_S, SCALED_S = 90.0, 420.0, 120.0
VIEW = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "watcher"},
    "rules": [{"apiGroups": ["serving.windlass.dev"], "resources": ["llmservices"], "verbs": ["get", "list", "watch"]}],
}


@dataclass
class Run:
    """What runs, and the figures so far."""

    services: int
    cluster: Cluster
    console: Process
    url: str
    tokens: Sequence[str]
    figures: dict[str, Any] = field(default_factory=dict)


def expect(true: bool, what: str) -> None:
    """A run whose rows are not those of the cluster has no figures."""
    if not true:
        raise RuntimeError(what)


async def until(true: Callable[[], bool], seconds: float) -> bool:
    """Whether it becomes true in that time."""
    late = time.monotonic() + seconds
    while not true():
        if time.monotonic() > late:
            return False
        await asyncio.sleep(0.1)
    return True


def tell(words: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')}  {words}", file=sys.stderr, flush=True)


async def all_running(cluster: Cluster, services: int) -> None:
    """Wait until the operator says Running of each."""
    late = time.monotonic() + RUNNING_S
    while True:
        found = reasons(await cluster.items(f"{GROUP}/llmservices"), "Ready")
        if found.get("Running", 0) == services:
            return
        if time.monotonic() > late:
            raise TimeoutError(f"not all are running: {found}")
        tell(f"{found.get('Running', 0)} of {services} running")
        await asyncio.sleep(5)


def watcher_tokens(bed: Bed, count: int) -> list[str]:
    """Of as many users, who may look at all LLMServices."""
    names = [f"watcher-{number}" for number in range(count)]
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"} for name in names]
    accounts = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}} for name in names]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "watcher"}
    binding = {"apiVersion": VIEW["apiVersion"], "kind": "ClusterRoleBinding", "metadata": {"name": "watchers"},
               "roleRef": role, "subjects": subjects}  # fmt: skip
    bed.api.kubectl(
        "apply", "-n", "default", "-f", "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [*accounts, VIEW, binding]}),
    )  # fmt: skip
    return [bed.api.kubectl("create", "token", name, "-n", "default").stdout.strip() for name in names]


async def answers(url: str) -> None:
    """Wait until the console serves."""
    late = time.monotonic() + READY_S
    async with httpx2.AsyncClient(trust_env=False, timeout=5) as http:
        while time.monotonic() < late:
            try:
                if (await http.get(f"{url}/readyz")).is_success:
                    return
            except httpx2.TransportError:
                await asyncio.sleep(0.2)
    raise TimeoutError("the console does not answer")


async def first_list(run: Run) -> None:
    """The list of all namespaces by one user, on a connection that is there and on a new one."""
    headers = {"Authorization": f"Bearer {run.tokens[0]}"}
    async with httpx2.AsyncClient(base_url=run.url, headers=headers, trust_env=False, timeout=60) as http:
        times = []
        for _ in range(LISTS):
            began = time.monotonic()
            answer = await http.get("/api/services", params={"namespace": "*"})
            times.append(time.monotonic() - began)
            expect(len(answer.json()["items"]) == run.services, f"the list has others: {answer.text[:300]}")
    run.figures["list: the first one, s"] = times[0]
    run.figures["list: median of the next, s"] = statistics.median(times[1:])
    run.figures["list: KiB"] = len(answer.content) / 1024
    run.figures["memory after the lists, MiB"] = run.console.memory_mib()


@asynccontextmanager
async def watching(run: Run, count: int) -> AsyncIterator[list[Watcher]]:
    """So many live lists of as many users."""
    async with AsyncExitStack() as stack:
        watchers = [Watcher(run.url, token) for token in run.tokens[:count]]
        began = time.monotonic()
        for one in watchers:
            task = asyncio.create_task(one.run())
            stack.callback(task.cancel)
        await asyncio.gather(*(one.whole.wait() for one in watchers))
        run.figures[f"{count} watching: first rows of the last one, s"] = time.monotonic() - began
        expect({one.first_rows for one in watchers} == {run.services}, "a live list is not whole")
        yield watchers


async def write_for(run: Run, seconds: float, rate: float, mark: str) -> tuple[dict[int, float], set[int]]:
    """Annotate the services in turn at a steady rate.

    When each new resource version was acknowledged, and the last one of each service: a watcher that is behind gets no
    other.
    """
    loop, sent, last = asyncio.get_running_loop(), dict[int, float](), dict[int, int]()
    head = {"Content-Type": "application/merge-patch+json"}

    async def write(number: int) -> None:
        which = number % run.services
        path = f"{GROUP}/namespaces/{namespace(which)}/llmservices/qwen-{which}"
        body = json.dumps({"metadata": {"annotations": {"written": f"{mark} {number}"}}})
        answer = (await run.cluster.http.patch(path, content=body, headers=head)).raise_for_status().json()
        version = int(answer["metadata"]["resourceVersion"])
        sent[version], last[which] = time.monotonic(), max(version, last.get(which, 0))

    began, tasks = loop.time(), []
    for number in range(int(seconds * rate)):
        await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
        tasks.append(asyncio.create_task(write(number)))
    await asyncio.gather(*tasks)
    return sent, set(last.values())


async def updates(run: Run, watchers: list[Watcher], rate: float) -> None:
    """What of the writes reaches each watcher, and how late."""
    name = f"{len(watchers)} watching, {rate:.0f} writes a second"
    tell(name)
    for one in watchers:
        one.seen.clear()
    began, cpu_s = time.monotonic(), run.console.cpu_s()
    sent, last = await write_for(run, WRITE_S, rate, name)
    written_s = time.monotonic() - began
    await until(lambda: all(last <= one.seen.keys() for one in watchers), SETTLE_S)
    waits = sorted(max(0.0, one.seen[rv] - at) for one in watchers for rv, at in sent.items() if rv in one.seen)
    whole_s = max(max(one.seen.values()) for one in watchers) - began
    run.figures[name] = {
        "written a second": len(sent) / written_s,
        "updates a second to all watchers": len(waits) / whole_s,
        "replaced by a later one": sum(len((sent.keys() - last) - one.seen.keys()) for one in watchers),
        "missed": sum(len(last - one.seen.keys()) for one in watchers),
        "p50, s": waits[len(waits) // 2],
        "p99, s": waits[len(waits) * 99 // 100],
        "processor of the console": (run.console.cpu_s() - cpu_s) / whole_s,
    }


async def scaled(run: Run, watchers: list[Watcher]) -> None:
    """A hundred services get a second replica; the operator, controllers and kubelets do the rest."""
    names = [(namespace(number), f"qwen-{number}") for number in range(min(100, run.services))]
    began = time.monotonic()
    for place, name in names:
        await run.cluster.patch(f"{GROUP}/namespaces/{place}/llmservices/{name}", {"spec": {"replicas": 2}})
    run.figures["scaled: seen by all"] = await until(
        lambda: all(one.ready.get(key) == "2/2" for one in watchers for key in names), SCALED_S
    )
    run.figures["scaled by the operator, as the last watcher sees it, s"] = time.monotonic() - began


async def measure(run: Run) -> None:
    """All phases."""
    run.figures["memory idle, MiB"] = run.console.memory_mib()
    await first_list(run)
    for count in WATCHERS:
        async with watching(run, count) as watchers:
            run.figures[f"{count} watching: memory, MiB"] = run.console.memory_mib()
            for rate in RATES:
                await updates(run, watchers, rate)
            if count == max(WATCHERS):
                await scaled(run, watchers)
            run.figures[f"{count} watching: memory at the end, MiB"] = run.console.memory_mib()
    run.figures["memory at its highest, MiB"] = run.console.memory_mib("VmHWM")


async def bring_up(bed: Bed, cluster: Cluster, services: int, stack: ExitStack) -> None:
    """Nodes, services and the operator, until all are running."""
    await make_namespaces(cluster)
    await make_nodes(cluster, services + 200)
    (port,) = control_plane.free_ports(1)
    command, env = operator(bed, port, 0)
    stack.enter_context(process(command, bed.folder / "operator.log", env))
    await make_services(cluster, services)
    await all_running(cluster, services)


async def _main(bed: Bed, services: int) -> dict[str, Any]:
    async with facts_port():
        with ExitStack() as stack:
            cluster = Cluster.connect(bed.api)
            await bring_up(bed, cluster, services, stack)
            (port,) = control_plane.free_ports(1)
            command = (
                *(sys.executable, "-m", "windlass_console", "--port", str(port), "--insecure-cookie"),
                *("--api-server", bed.api.url, "--ca-file", str(bed.api.ca_file)),
            )
            console = stack.enter_context(process(command, bed.folder / "console.log"))
            url = f"http://127.0.0.1:{port}"
            await answers(url)
            run = Run(services, cluster, console, url, watcher_tokens(bed, max(WATCHERS)))
            run.figures |= {"services": services, "processors": os.cpu_count(), "load before": os.getloadavg()[0]}
            try:
                await measure(run)
            finally:
                print(table(run.figures))
            return run.figures


def table(figures: dict[str, Any]) -> str:
    """The figures as lines."""
    lines = []
    for name, found in figures.items():
        shown = (
            ", ".join(f"{key} {one:.3g}" for key, one in found.items()) if isinstance(found, dict) else f"{found:.3g}"
        )
        lines.append(f"{name:<56} {shown}")
    return "\n".join(lines)


def main() -> int:
    """Run it; 1 where an update was missed or a service did not come up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("services", type=int, nargs="?", default=1000)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="windlass-console-") as folder, running_bed(Path(folder)) as bed:
        figures = asyncio.run(_main(bed, options.services))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    missed = sum(one["missed"] for one in figures.values() if isinstance(one, dict))
    return 1 if missed or not figures.get("scaled: seen by all") else 0


if __name__ == "__main__":
    sys.exit(main())
