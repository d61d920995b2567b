"""`make test-ingress`, its first part: a real Traefik takes the Ingress and the HTTPRoute that the operator makes.

No cluster yet: an API server, Traefik as a process, and the operator's own functions for the objects and for what their
status says. What Traefik would route is read from its API.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import yaml
from windlass_api.crd.expose import GatewaySpec, IngressSpec
from windlass_operator.manifests.route import http_route, ingress
from windlass_operator.manifests.service import service as service_of
from windlass_operator.reconcile.desired_state import parse_service
from windlass_operator.records.base import parse
from windlass_operator.records.routes import HTTPRoute, Ingress, expose_of
from windlass_operator.status.routes import addresses, route_ready
from windlass_testbed import golang, traefik
from windlass_testbed.paths import paths

pytestmark = pytest.mark.apiserver
HOST = "llm.example.com"
PVC = {"pvc": {"claimName": "models", "path": "demo"}}


def flags() -> list[str]:
    """Traefik's, as the test cluster has them."""
    rows = [one for one in yaml.safe_load_all(traefik.MANIFEST.read_text()) if one["kind"] == "Deployment"]
    return list(rows[0]["spec"]["template"]["spec"]["containers"][0]["args"])


@pytest.fixture
def routers(apiserver, tmp_path) -> Iterator[Callable[[], dict[str, Any]]]:
    """Traefik on free ports, beside the API server; what it gives are its routers by name."""
    golang.ensure(paths(), ("traefik",))
    apiserver.kubectl("apply", "--server-side", "-f", str(traefik.gateway_api(paths())))
    wanted = [one for one in yaml.safe_load_all(traefik.MANIFEST.read_text())
              if one["kind"] in ("Namespace", "IngressClass", "GatewayClass", "Gateway")]  # fmt: skip
    until(lambda: not apiserver.kubectl("get", "gateways,httproutes", check=False).returncode, "the Gateway API")
    web, secure, api = sys.modules[type(apiserver).__module__].free_ports(3)
    ports = {":8000": f"127.0.0.1:{web}", ":8443": f"127.0.0.1:{secure}", ":8080": f"127.0.0.1:{api}"}
    for one in wanted:
        if one["kind"] == "Gateway":  # a listener's port is an entry point's; the one with TLS has no certificate here
            one["spec"]["listeners"] = [{**one["spec"]["listeners"][0], "port": web}]
        done = apiserver.apply(one)
        assert not done.returncode, done.stderr
    words = [next((f"{word.removesuffix(old)}{new}" for old, new in ports.items() if word.endswith(f"={old}")), word)
             for word in flags()]  # fmt: skip
    words.append("--api.insecure=true")
    for provider in ("kubernetesIngress", "kubernetesGateway"):
        told = {"endpoint": apiserver.url, "token": apiserver.token, "certAuthFilePath": apiserver.ca_file}
        words += [f"--providers.{provider}.{name}={value}" for name, value in told.items()]
    with (tmp_path / "traefik.log").open("wb") as log:
        running = subprocess.Popen([paths().bin / "traefik", *words], stdout=log, stderr=log, env=os.environ)
        try:
            yield lambda: _routers(f"http://127.0.0.1:{api}/api/http/routers")
        finally:
            running.terminate()
            running.wait(20)
            print((tmp_path / "traefik.log").read_text()[-3000:])


def _routers(url: str) -> dict[str, Any]:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
        return {row["name"]: row for row in json.loads(answer.read())}


def until(look: Callable[[], Any], what: str) -> Any:
    deadline, seen = time.monotonic() + 40, None
    while time.monotonic() < deadline:
        try:
            seen = look()
        except (urllib.error.URLError, ConnectionError) as error:
            seen = error
        else:
            if seen:
                return seen
        time.sleep(0.5)
    pytest.fail(f"waited 40 s for {what}; last seen: {seen!r}")


def exposed(apiserver, namespace: str, name: str) -> dict[str, Any]:
    """Apply what the operator makes for a service that is exposed both ways, and endpoints for its pods."""
    expose = {
        "path": f"/{name}",
        "ingress": {"host": HOST, "className": "traefik"},
        "gateway": {"parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "http"}],
                    "hostnames": [HOST]},
    }  # fmt: skip
    meta = {"name": name, "namespace": namespace, "uid": "00000000-0000-0000-0000-000000000001"}
    wish = parse_service({"metadata": meta, "spec": {"model": {"id": "demo", "source": PVC}, "expose": expose}})
    assert isinstance(wish.spec.expose.ingress, IngressSpec)
    assert isinstance(wish.spec.expose.gateway, GatewaySpec)
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": f"{name}-1", "namespace": namespace, "labels": {"kubernetes.io/service-name": name}},
        "endpoints": [{"addresses": ["10.244.1.9"], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": 8501, "protocol": "TCP"}],
    }  # fmt: skip
    made = (service_of(wish), ingress(wish, wish.spec.expose.ingress), http_route(wish, wish.spec.expose.gateway))
    for one in (*made, slice_):
        one["metadata"].pop("ownerReferences", None)  # there is no such service
        done = apiserver.apply(one)
        assert not done.returncode, done.stderr
    return expose


def test_traefik_takes_both_and_rewrites_nothing(apiserver, namespace, routers):
    """RouteReady by the operator's own rule, and routers that match a whole prefix and have no middleware."""
    expose = {name: exposed(apiserver, namespace, name) for name in ("one", "two")}

    def route_objects(name: str) -> tuple[Any, Any]:
        found = [apiserver.get(kind, name, "-n", namespace) for kind in ("ingress", "httproute")]
        return parse(Ingress, found[0]), parse(HTTPRoute, found[1])

    for name, wish in expose.items():
        said = until(partial(_taken, wish, partial(route_objects, name)), f"RouteReady of {name}")
        assert said == f"{HOST} leads to traefik.gateways.svc; Gateway gateways/public has taken the route"
        urls = [row["url"] for row in addresses(name, namespace, expose_of(wish), *route_objects(name))]
        assert urls[1:] == [f"http://{HOST}/{name}/v1"] * 2
    found = until(lambda: _of_both(routers()), "routers of both controllers for both services")
    for row in found:
        assert row["status"] == "enabled"
        assert not row.get("middlewares")
        rule = row["rule"].replace("`", '"')
        (name,) = [name for name in expose if f'"/{name}"' in rule]
        assert {f'Host("{HOST}")', f'Path("/{name}")', f'PathPrefix("/{name}/")'} <= set(
            re.findall(r'\w+\("[^"]*"\)', rule)
        )


def _taken(wish: dict[str, Any], route_objects: Callable[[], tuple[Any, Any]]) -> str:
    """The message of RouteReady, once it is true."""
    found = route_ready(expose_of(wish), *route_objects(), known=True)
    return found.message if found.status == "True" else ""


def _of_both(rows: dict[str, Any]) -> list[Any]:
    """The routers of the host, once the Ingress and the HTTPRoute of both services have theirs."""
    found = [row for row in rows.values() if HOST in row["rule"]]
    ways = {(row["provider"], "/one" in row["rule"]) for row in found}
    return found if len(ways) == 4 else []
