"""`make test-ingress`: a real Traefik in front of two real services, by Ingress and by the Gateway API.

The commands and the YAML are those of docs/how-to/expose.md, read out of the page. Both services share one host by
their paths; a client in a pod of its own asks them through Traefik and by their own address.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml
from windlass_testbed import traefik
from windlass_testbed.cluster import kubectl
from windlass_testbed.forward import forward
from windlass_testbed.paths import REPOSITORY

sys.path.insert(0, str(Path(__file__).parent))

from strangers import Asker, listener

PAGE = (REPOSITORY / "docs/how-to/expose.md").read_text()
CLIENT = (Path(__file__).parent / "ingress_client.py").read_text()
HOST = "llm.example.com"
CONTROLLER = "traefik.gateways.svc"
KEY = "sk-one"
SERVERS = "serving.windlass.dev/service=one,app.kubernetes.io/component=server"
LIMIT_S = 0.020
"""How much later the first token may come through Traefik than without it."""
WAYS_IN = {"one": ("websecure", "http"), "two": ("web", "https")}
"""The entry point of a service's Ingress and the listener of its HTTPRoute: each of the two, with TLS and without."""
WHICH = {("one", "TLS"): "Ingress", ("one", "plain"): "Gateway API", ("two", "TLS"): "Gateway API",
         ("two", "plain"): "Ingress", ("one", "direct"): "own address", ("two", "direct"): "own address"}  # fmt: skip
ROUNDS = 40
LONG_S = 60.0
"""Traefik's own limit for reading a request, and what many proxies wait for a byte by default."""
CONTEXT, CHOICES_MAX = 1900, 128
"""Tokens of one answer of the demo's model, and the most answers to one request."""
ONE_AT_A_TIME = ("--max-num-seqs", "1")
"""The answers to one request come one after the other, so that their number makes a stream as long as it shall be."""


def block(heading: str, kind: str) -> str:
    """The first fenced block of a kind below a heading of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.search(rf"```{kind}\n(.*?)```", section, re.S)
    assert found, f"docs/how-to/expose.md has no {kind} block below {heading}"
    return found[1]


def run_page(bed, namespace: str, heading: str, name: str, folder: Path) -> list[str]:
    """Run the page's commands for one service, in a folder that has the files which they name; what each printed."""
    lines = [line[2:] for line in block(heading, "console").splitlines() if line.startswith("$ ")]
    out = []
    for line in lines:
        program, *words = shlex.split(line.replace(" NAME ", f" {name} "))
        assert program == "kubectl"
        command = [bed.paths.bin / "kubectl", "--kubeconfig", bed.paths.kubeconfig, "-n", namespace, *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == 0 or "already exists" in done.stderr, f"{line}: {done.stderr}"
        out.append(done.stdout)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With a certificate for the host, as the page names it."""
    place = tmp_path_factory.mktemp("ingress")
    subject = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", "tls.key", "-out", "tls.crt"], cwd=place, check=True, capture_output=True)
    return place


@pytest.fixture(scope="module")
def controller(bed, folder):
    with traefik.installed(bed.paths, folder / "tls.crt", folder / "tls.key"):
        yield CONTROLLER


@pytest.fixture(scope="module")
def client(bed, namespace, controller):
    """A pod that is no part of any service: it asks Traefik or a service, and gives what came."""
    pod = listener("client", bed.images["server-cpu"], [8080])
    # Its times are measured: without a request of its own it waits for whatever else the node computes.
    pod["spec"]["containers"][0] |= {"imagePullPolicy": "Never", "resources": {"requests": {"cpu": "300m"}}}
    bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(pod))
    bed.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/client", "--timeout=120s")
    asker = Asker(bed.paths, namespace, "client")
    return lambda what, **words: asker.run(CLIENT, json.dumps({"what": what, **words}))


@pytest.fixture(scope="module")
def services(bed, namespace, client, folder) -> tuple[str, str]:
    """Two services on one host: `one` has keys, `two` none and one request at a time; both believe Traefik."""
    address = kubectl(bed.paths, "-n", traefik.NAMESPACE, "get", "pods", "-l", "app=traefik",
                      "-o", "jsonpath={.items[0].status.podIP}")  # fmt: skip
    believed = yaml.safe_load(block("Client addresses", "yaml"))["spec"]["env"]
    believed[0]["value"] = address
    bed.kubectl("-n", namespace, "create", "secret", "generic", "keys", f"--from-literal=alice={KEY}")
    cheap = {"license": {"required": False}, "resources": {"gpus": 0, "cpu": "300m", "memory": "3Gi"}}
    for name, (entry, listener_) in WAYS_IN.items():
        wish = yaml.safe_load(block("From outside", "yaml"))["spec"]["expose"]
        assert wish["ingress"]["host"] == HOST
        wish["ingress"]["annotations"] = {"traefik.ingress.kubernetes.io/router.entrypoints": entry}
        wish["gateway"]["parentRefs"][0]["sectionName"] = listener_
        own = {"path": f"/{name}", **({"apiKeysSecretRef": {"name": "keys"}} if name == "one" else {})}
        (folder / "route.yaml").write_text(yaml.safe_dump({"spec": {"expose": {**wish, **own}}}))
        engine, args = ({"maxConcurrency": 1}, ONE_AT_A_TIME) if name == "two" else ({"maxConcurrency": 16}, ())
        # What changes the pod is there from the start, so that the page's patch replaces none.
        bed.apply(namespace, name, **cheap, expose=own, env=believed, engine=engine, args=list(args))
        *_, addresses = run_page(bed, namespace, "From outside", name, folder)
        assert addresses.split()[1:] == [f"https://{HOST}/{name}/v1", f"http://{HOST}/{name}/v1"]
    for name in WAYS_IN:
        bed.ready(namespace, name, timeout_s=500)
    return "one", "two"


@pytest.fixture
def ways(namespace, folder) -> dict[str, dict[str, dict[str, Any]]]:
    """How each service is reached: directly, with TLS and without. Which of them is the Ingress, WAYS_IN says."""
    tls = (folder / "tls.crt").read_text()

    def of(name: str) -> dict[str, dict[str, Any]]:
        common = {"host": HOST, "prefix": f"/{name}", "key": KEY if name == "one" else ""}
        direct = {**common, "place": f"{name}.{namespace}.svc", "port": 8501, "prefix": ""}
        return {
            "direct": direct,
            "TLS": {**common, "place": CONTROLLER, "authority": tls},
            "plain": {**common, "place": CONTROLLER, "port": 80},
        }

    return {name: of(name) for name in ("one", "two")}


def test_both_controllers_have_taken_both_services(bed, namespace, services):
    """The condition says where each leads, in the controllers' words."""
    for name in services:
        said = bed.condition(namespace, name, "RouteReady")
        assert said["status"] == "True"
        assert CONTROLLER in said["message"]
        assert "Gateway gateways/public has taken the route" in said["message"]


def test_keys_hold_on_each_way(services, client, ways):
    """Without one 401, with it the models; a service that has none asks for none."""
    for way in ways["one"].values():
        assert client("get", way={**way, "key": ""}, path="/v1/models")["status"] == 401
        assert client("get", way={**way, "key": "sk-wrong"}, path="/v1/models")["status"] == 401
        assert json.loads(client("get", way=way, path="/v1/models")["text"])["data"][0]["id"] == "demo"
    for way in ways["two"].values():
        assert client("get", way=way, path="/v1/models")["status"] == 200


def test_a_path_leads_to_its_own_service_and_no_other_path_to_any(services, client, ways):
    """One host, two services; what neither has is Traefik's own 404."""
    for kind in ("TLS", "plain"):
        assert client("get", way=ways["one"][kind], path="/windlass/facts")["status"] == 200
        facts = json.loads(client("get", way=ways["two"][kind], path="/windlass/facts")["text"])
        assert (facts["keysRequired"], facts["limits"]["concurrency"]) == (False, 1)
        for prefix in ("", "/onetwo", "/three"):
            assert client("get", way={**ways["two"][kind], "prefix": prefix}, path="/v1/models")["status"] == 404


@pytest.mark.parametrize("name", ["one", "two"])
def test_the_first_token_comes_as_soon_and_no_stream_is_cut(services, client, ways, name):
    """In turns with the service's own address: medians of the pairs' differences, by Ingress and by Gateway API."""
    found = client("firsts", ways=ways[name], rounds=ROUNDS)
    rows = found["firsts"]
    print(f"\nservice {name}, {ROUNDS} rounds, cut streams: {found['cut']}")
    late = {}
    for kind, times in rows.items():
        whole = [value for value in times if value is not None]
        pairs = [value - direct for value, direct in zip(times, rows["direct"], strict=True) if value and direct]
        late[kind] = median(pairs)
        print(f"{kind} ({WHICH[name, kind]}): median {median(whole) * 1000:.1f} ms, later {late[kind] * 1000:.1f} ms")
    assert set(found["cut"].values()) == {0}
    assert max(late.values()) <= LIMIT_S


@pytest.mark.parametrize("kind", ["TLS", "plain"])
def test_an_answer_comes_token_by_token(services, client, ways, kind):
    """Not in one piece: half of it has come by the middle of its time, give or take a third."""
    found = client("stream", way=ways["one"][kind], tokens=1500)
    times = found["times"]
    assert found["whole"] and len(times) > 100  # a busy engine gives several tokens in one piece
    assert len({round(value, 3) for value in times}) > 20
    assert times[0] < 0.3 * times[-1]
    assert 0.3 * times[-1] < median(times) < 0.8 * times[-1]


@pytest.mark.parametrize(("kind", "other"), [("TLS", "plain"), ("plain", "TLS")])
def test_a_long_answer_and_a_long_silence_end_well(services, client, ways, kind, other):
    """The service takes one request at a time: one streams for over a minute, one waits as long without a byte."""
    choices = _enough(client("stream", way=ways["two"]["direct"], tokens=400)["times"])
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(client, "stream", way=ways["two"][kind], tokens=CONTEXT, choices=choices)
        _until_one_runs(client, ways["two"]["direct"], answer)
        silent = client("stream", way=ways["two"][other], tokens=50)
        long = answer.result()
    assert (long["status"], silent["status"]) == (200, 200), (long, silent)
    streamed, waited = long["times"][-1] - long["times"][0], silent["times"][0]
    print(f"\n{kind}: {choices} answers, {len(long['times'])} pieces in {streamed:.0f} s")
    print(f"{other}: {waited:.0f} s without a byte")
    assert (long["whole"], silent["whole"]) == (True, True)
    assert streamed > LONG_S
    assert waited > LONG_S


def _enough(times: list[float]) -> int:
    """How many answers after each other take half as long again as LONG_S, by when the pieces of one came."""
    tokens_a_second = (len(times) - 1) / (times[-1] - times[0])
    return min(CHOICES_MAX, 2 + int(1.5 * LONG_S * tokens_a_second / CONTEXT))


def _until_one_runs(client, way: dict[str, Any], answer: Future[dict[str, Any]]) -> None:
    deadline = time.monotonic() + 30
    while json.loads(client("get", way=way, path="/windlass/facts")["text"])["running"] != 1:
        assert not answer.done(), str(answer.result())[:500]
        assert time.monotonic() < deadline, "the long answer has not begun"


def test_the_log_has_the_clients_address_and_no_invented_one(bed, namespace, services, client, ways):
    """The server believes Traefik, which believes nobody; without Traefik nobody is believed."""
    own = Asker(bed.paths, namespace, "client").address
    for number, kind in enumerate(("direct", "TLS", "plain")):
        lie = {**ways["one"][kind], "headers": {"X-Forwarded-For": f"203.0.113.{number}"}}
        assert client("get", way=lie, path=f"/v1/models?from={kind}")["status"] == 200
    pod = bed.items(namespace, "pods", "-l", SERVERS)[0]["metadata"]["name"]
    logged = bed.wait("the requests in the log", lambda: _lines(bed, namespace, pod), 30)
    assert "203.0.113." not in logged
    for kind in ("direct", "TLS", "plain"):
        (line,) = [row for row in logged.splitlines() if f"from={kind}" in row]
        assert f"{own}:" in line, line


def _lines(bed, namespace: str, pod: str) -> str:
    rows = bed.kubectl("-n", namespace, "logs", pod, "--since=120s").splitlines()
    found = [row for row in rows if "/v1/models?from=" in row]
    return "\n".join(found) if len(found) >= 3 else ""


def test_the_chat_page_works_below_its_prefix(bed, services, client, ways):
    """In a real browser, through Traefik: the page finds the API beside itself and lists the model."""
    found = client("get", way=ways["two"]["TLS"], path="/chat")
    assert (found["status"], found["headers"]["content-type"]) == (200, "text/html; charset=utf-8")
    with forward(bed.paths, traefik.NAMESPACE, "svc/traefik", 80) as url:
        rules = f"--host-resolver-rules=MAP {HOST} {url.removeprefix('http://')}"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=15000", "--no-proxy-server"]
        command = ["chromium", *flags, rules, "--dump-dom", f"http://{HOST}/two/chat"]
        page = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    chosen = page.split('id="model"')[1].split("</select>")[0]
    assert re.search(r"<option[^>]*>demo</option>", chosen), chosen
