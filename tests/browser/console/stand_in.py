"""A stand-in of the console's back end for the pages' tests: its API over invented services, its headers, no cluster.

`python tests/browser/console/stand_in.py [--services N] [--prefix /a/b] [--rights all|some|read] [--signed-out]
[--licenses in-force|unreachable] [--port N]`
prints its address and serves until its standard input ends. Plans are the operator's own decisions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.model import Inventory, NodeGpus
from windlass_client.errors import ClientError
from windlass_client.preview import decided, facts_of
from windlass_client.schema import json_schema
from windlass_client.values import spec_of
from windlass_console.errors import NOT_ACCEPTED

sys.path.insert(0, str(Path(__file__).parent))
import invented

PAGES = Path(__file__).parents[3] / "clients/console/src/windlass_console/pages"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
NODES = Inventory(
    (
        NodeGpus("gpu-a1", "NVIDIA-L20", 44.99, 8, 5, host_gib=512),
        NodeGpus("gpu-a2", "NVIDIA-L20", 44.99, 8, 8, host_gib=512),
        NodeGpus("gpu-h1", "NVIDIA-H20", 95.58, 8, 2, host_gib=1024),
    )
)


class Cluster:
    """What the stand-in holds: services by namespace and name, and who listens."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.listeners: list[asyncio.Queue[dict[str, Any]]] = []
        self.begin()

    def begin(self) -> None:
        """As at the start."""
        self.services: dict[tuple[str, str], dict[str, Any]] = {
            (one["metadata"]["namespace"], one["metadata"]["name"]): one
            for one in invented.services(self.options.services)
        }
        self.signed_in = not self.options.signed_out
        self.readings = 0

    def publish(self, service: dict[str, Any], *, deleted: bool = False) -> None:
        row = invented.row(service)
        where = {"namespace": row["namespace"], "name": row["name"]}
        change = {"upserted": [] if deleted else [row], "deleted": [where] if deleted else [], "synced": True}
        for queue in self.listeners:
            queue.put_nowait(change)


CLUSTER: web.AppKey[Cluster] = web.AppKey("cluster", Cluster)


def cluster_of(request: web.Request) -> Cluster:
    """The cluster of this application."""
    return request.app[CLUSTER]


def key_of(request: web.Request) -> tuple[str, str]:
    """Namespace and name in the address."""
    return request.match_info["namespace"], request.match_info["name"]


def refusal(status: int, error: str, reason: str, fields: list[dict[str, str]] | None = None) -> web.Response:
    """An error as the contract has it."""
    return web.json_response({"error": error, "reason": reason, "fields": fields or []}, status=status)


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Headers of every answer, the header that forms cannot send, and the sign-in."""
    api = "/api/" in request.path
    if api and request.method != "GET" and request.headers.get("X-Windlass-Console") != "1":
        return refusal(403, "the header X-Windlass-Console is missing", "Origin")
    if api and not cluster_of(request).signed_in and not request.path.endswith("/session"):
        return refusal(401, "sign in first", "SignIn")
    try:
        answer = await handler(request)
    except ConnectionResetError:  # the browser has left a stream
        return web.Response()
    if not answer.prepared:
        answer.headers.update(HEADERS)
    return answer


async def page(request: web.Request) -> web.StreamResponse:
    """A file of the pages."""
    name = request.match_info["file"] or "index.html"
    path = (PAGES / name).resolve()
    if not path.is_relative_to(PAGES) or not path.is_file():
        return refusal(404, f"{name} is not there", "NotFound")
    return web.FileResponse(path, headers=HEADERS)


async def session(request: web.Request) -> web.Response:
    """Who is signed in; the token of the tests is `good`."""
    cluster = cluster_of(request)
    if request.method == "POST":
        if (await request.json()).get("token") != "good":
            return refusal(401, NOT_ACCEPTED, "SignIn")
        cluster.signed_in = True
    if request.method == "DELETE":
        cluster.signed_in = False
        return web.Response(status=204)
    if not cluster.signed_in:
        return refusal(401, "sign in first", "SignIn")
    return web.json_response(invented.session(cluster.options.rights))


async def permissions(request: web.Request) -> web.Response:
    """Everything, or what a reader may."""
    rights = invented.rights(cluster_of(request).options.rights)
    return web.json_response({"namespace": request.query["namespace"], "can": rights})


def chosen(request: web.Request) -> list[dict[str, Any]]:
    """The services of the namespace that is asked for."""
    wanted = request.query.get("namespace", "*")
    return [one for key, one in cluster_of(request).services.items() if wanted in ("*", key[0])]


async def events_of(request: web.Request) -> web.StreamResponse:
    """Begin a stream of server-sent events."""
    answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await answer.prepare(request)
    return answer


async def send(answer: web.StreamResponse, kind: str, data: Any) -> None:
    """One event."""
    await answer.write(f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode())


async def list_all(request: web.Request) -> web.Response:
    """The rows of a namespace, or of all."""
    return web.json_response({"items": [invented.row(one) for one in chosen(request)]})


async def watch_all(request: web.Request) -> web.StreamResponse:
    """Everything, then every change."""
    cluster, queue = cluster_of(request), asyncio.Queue[dict[str, Any]]()
    answer = await events_of(request)
    wanted = request.query["namespace"]
    rows = [invented.row(one) for one in chosen(request)]
    await send(answer, "ROWS", {"upserted": rows, "deleted": [], "synced": True, "reset": True})
    cluster.listeners.append(queue)
    try:
        while True:
            change = await queue.get()
            if wanted == "*" or all(row["namespace"] == wanted for row in (*change["upserted"], *change["deleted"])):
                await send(answer, "ROWS", change)
    finally:
        cluster.listeners.remove(queue)


async def watch_one(request: web.Request) -> web.StreamResponse:
    """One service, and every change of it."""
    cluster, queue, key = cluster_of(request), asyncio.Queue[dict[str, Any]](), key_of(request)
    if key not in cluster.services:
        return refusal(404, f"llmservice {'/'.join(key)} is not there", "NotFound")
    answer = await events_of(request)
    await send(answer, "CHANGED", invented.detail(cluster.services[key]))
    cluster.listeners.append(queue)
    try:
        while True:
            await queue.get()
            if key not in cluster.services:
                await send(answer, "DELETED", {})
                return answer
            await send(answer, "CHANGED", invented.detail(cluster.services[key]))
    finally:
        cluster.listeners.remove(queue)


async def get_one(request: web.Request) -> web.Response:
    """A detail."""
    found = cluster_of(request).services.get(key_of(request))
    return web.json_response(invented.detail(found)) if found else refusal(404, "it is not there", "NotFound")


async def pods(request: web.Request) -> web.Response:
    """Its pods."""
    return web.json_response(invented.pods(cluster_of(request).services[key_of(request)]))


async def write(request: web.Request) -> web.Response:
    """Create or replace; the spec is held to the CRD's own models."""
    body = await request.json()
    document = body["wanted"] if request.method == "PUT" else body
    cluster, meta = cluster_of(request), document["metadata"]
    try:
        spec_of(document)
    except ClientError as error:
        fields = [{"field": row.field, "message": row.message} for row in getattr(error, "problems", ())]
        return refusal(422, str(error), "Invalid", fields)
    key = (meta["namespace"], meta["name"])
    if request.method == "POST" and key in cluster.services:
        return refusal(409, f"llmservice {'/'.join(key)} exists already", "AlreadyExists")
    before = cluster.services.get(key, invented.unseen(meta["namespace"], meta["name"]))
    cluster.services[key] = {**before, "spec": document["spec"]}
    cluster.publish(cluster.services[key])
    return web.json_response(cluster.services[key], status=201 if request.method == "POST" else 200)


async def delete(request: web.Request) -> web.Response:
    """Delete it."""
    cluster = cluster_of(request)
    gone = cluster.services.pop(key_of(request))
    cluster.publish(gone, deleted=True)
    return web.Response(status=204)


async def change(request: web.Request) -> web.Response:
    """Scale, suspend, retry."""
    cluster, body = cluster_of(request), await request.json()
    service = cluster.services[key_of(request)]
    service["spec"].update(body)
    if "suspend" in body:
        invented.settle(service, "Suspended" if body["suspend"] else "Starting")
    cluster.publish(service)
    return web.json_response(service)


async def become(request: web.Request) -> web.Response:
    """For tests alone: give services another state, as the operator would."""
    cluster, changes = cluster_of(request), await request.json()
    for change in changes:
        service = cluster.services[change["namespace"], change["name"]]
        invented.settle(service, change["status"])
        cluster.publish(service)
    return web.json_response({})


async def begin(request: web.Request) -> web.Response:
    """For tests alone: forget what earlier tests did."""
    cluster_of(request).begin()
    return web.json_response({})


async def logs(request: web.Request) -> web.StreamResponse:
    """Some lines, then one every second where the page follows."""
    answer = await events_of(request)
    await send(answer, "LINES", invented.log_lines(request.match_info["name"]))
    if request.query.get("follow") != "true":
        await send(answer, "END", {"reason": "the log ends here"})
        return answer
    while True:
        await asyncio.sleep(1)  # clock: the pace of the log
        await send(answer, "LINES", invented.log_lines(request.match_info["name"])[-1:])


async def metrics(request: web.Request) -> web.Response:
    """Totals that grow with every reading."""
    cluster = cluster_of(request)
    cluster.readings += 1
    return web.json_response(invented.metrics(request.match_info["name"], cluster.readings))


async def chat(request: web.Request) -> web.StreamResponse:
    """An answer in pieces."""
    await request.json()
    answer = await events_of(request)
    for piece in invented.ANSWER:
        await answer.write(f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n".encode())
        await asyncio.sleep(0.02)  # clock: the pace of the answer
    usage = {"choices": [], "usage": {"completion_tokens": len(invented.ANSWER)}}
    await answer.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
    return answer


async def plan(request: web.Request) -> web.Response:
    """The operator's decision; facts are those of the config given, or of the likeness."""
    body = await request.json()
    answer: dict[str, Any] = {
        "problems": [],
        "refused": "",
        "preview": None,
        "noFacts": "",
        "noPlan": "",
        "factsFrom": "",
    }
    config, like = body.get("config"), body.get("like")
    try:
        spec: LLMServiceSpec = spec_of(body["service"])
        config = config or (invented.CONFIG if like else None)
        if config is None:
            answer["noFacts"] = "nothing is known of the model: give its config.json, or take an existing service's"
        else:
            answer["preview"] = decided(spec, facts_of(config), NODES).to_dict()
            answer["factsFrom"] = "config" if body.get("config") else "likeness"
    except ClientError as error:
        answer["problems"] = [{"field": row.field, "message": row.message} for row in getattr(error, "problems", ())]
        answer["refused"] = str(error)
    return web.json_response(answer)


def fixed(document: Callable[[], Any]) -> Handler:
    """A handler that always answers the same."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(document())

    return answer


def application(options: argparse.Namespace) -> web.Application:
    """The stand-in as a web application."""
    app = web.Application(middlewares=[guard])
    app[CLUSTER] = Cluster(options)
    api, one = f"{options.prefix}/api", f"{options.prefix}/api/services/{{namespace}}/{{name}}"
    rows: list[tuple[str, str, Handler]] = [
        ("*", f"{api}/session", session),
        ("GET", f"{api}/permissions", permissions),
        ("GET", f"{api}/services", list_all),
        ("GET", f"{api}/services/watch", watch_all),
        ("POST", f"{api}/services/{{namespace}}", write),
        ("GET", one, get_one),
        ("PUT", one, write),
        ("DELETE", one, delete),
        ("GET", f"{one}/watch", watch_one),
        ("PUT", f"{one}/{{what:scale|suspend|retry}}", change),
        ("GET", f"{one}/pods", pods),
        ("GET", f"{one}/events", fixed(invented.events)),
        ("GET", f"{one}/logs", logs),
        ("GET", f"{one}/metrics", metrics),
        ("GET", f"{one}/call", fixed(invented.call)),
        ("POST", f"{one}/chat", chat),
        ("GET", f"{api}/schema", fixed(json_schema)),
        ("POST", f"{api}/plan", plan),
        ("GET", f"{api}/models", fixed(invented.models)),
        ("GET", f"{api}/choices", fixed(invented.choices)),
        ("GET", f"{api}/capacity", fixed(invented.capacity)),
        ("GET", f"{api}/licenses", fixed(invented.LICENSES[options.licenses])),
        ("GET", f"{api}/benchmarks", fixed(invented.benchmarks)),
        ("GET", f"{api}/benchmarks/{{namespace}}/{{name}}", fixed(invented.benchmark)),
        ("POST", f"{options.prefix}/become", become),
        ("POST", f"{options.prefix}/begin", begin),
        ("GET", f"{options.prefix}/{{file:.*}}", page),
    ]
    for method, path, handler in rows:
        app.router.add_route(method, path, handler)
    return app


async def serve(options: argparse.Namespace) -> None:
    """Serve until standard input ends."""
    runner = web.AppRunner(application(options), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", options.port).start()
    host, port = runner.addresses[0][:2]
    print(f"http://{host}:{port}{options.prefix}/", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=24)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--rights", choices=("all", "some", "read"), default="all")
    parser.add_argument("--signed-out", action="store_true")
    parser.add_argument("--licenses", choices=("in-force", "unreachable"), default="in-force")
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
