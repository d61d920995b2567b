"""Hostile text and hostile pages in Chromium: nothing of others becomes script, and no other site changes anything.

Not collected by itself: `make attack-console` runs it where Chromium is.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright

from . import hostile_programs
from .conftest import Attacked
from .hostile_programs import SCRIPTS

pytestmark = pytest.mark.apiserver
WAIT_MS = 30_000
ADDRESS = f"198.51.100.{1 + os.getpid() % 250}"
ALL = " ".join(SCRIPTS)
INSIDE, EVIL = (Path(__file__).with_name(name) for name in ("inside.js", "evil.html"))
NODE, VERSION = "hostile", "serving.windlass.dev/v1alpha1"
TABS = ("overview", "graphs", "logs", "events", "chat", "call", "yaml")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if not program:
        pytest.fail("there is no chromium on PATH: apt-get install -y --no-install-recommends chromium")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def faults() -> list[str]:
    """Dialogs, exceptions and refusals by the policy: each would be a text that the browser took for more."""
    return []


def _note(dialog: Dialog, faults: list[str]) -> None:
    """The form's own question about unsaved text is answered by going on; any other dialog is a fault."""
    if dialog.message.startswith("Leave this page?"):
        dialog.accept()
        return
    faults.append(f"dialog {dialog.message}")
    dialog.dismiss()


@pytest.fixture
def page(browser: Browser, console: Attacked, faults: list[str]) -> Iterator[Page]:
    """The console of the administrator."""
    context = browser.new_context(viewport={"width": 1360, "height": 860}, locale="en-GB")
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.on("dialog", lambda dialog: _note(dialog, faults))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: "ontent Security Policy" in line.text and faults.append(line.text))
    page.on("popup", lambda other: faults.append(f"popup {other.url}"))
    page.goto(f"{console.url}/")
    page.get_by_label("Kubernetes token").fill(console.apiserver.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Services")).to_be_visible()
    yield page
    context.close()


def status(console: Attacked, kind: str, name: str, namespace: str, document: dict[str, Any]) -> None:
    place = (kind, name, *(("-n", namespace) if namespace else ()))
    console.apiserver.kubectl(
        "patch", *place, "--subresource=status", "--type=merge", "-p", json.dumps({"status": document})
    )


@pytest.fixture(scope="module")
def namespace(console: Attacked, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service whose every text is script: name of the model, condition, Event, log, node, metrics, chat."""
    with (
        hostile_programs.kubelet(tmp_path_factory.mktemp("kubelet")) as port,
        hostile_programs.pod(ADDRESS) as address,
    ):
        place = console.namespace()
        hostile_node(console, port)
        hostile_service(console, place)
        hostile_pod(console, place, address)
        yield place


def hostile_node(console: Attacked, port: int) -> None:
    """Names and labels hold no script; what its conditions and taints say may."""
    refused = console.apiserver.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": SCRIPTS[0]}})
    assert "Invalid" in refused.stderr
    labels = {"nvidia.com/gpu.product": "NVIDIA-L20", "nvidia.com/gpu.memory": "46068"}
    console.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}})
    gpus = {"cpu": "8", "memory": "64Gi", "pods": "50", "nvidia.com/gpu": "4"}
    now = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "False", "reason": "X", "message": ALL, "lastTransitionTime": now}
    status(console, "node", NODE, "", {
        "capacity": gpus, "allocatable": gpus, "conditions": [{**ready, "lastHeartbeatTime": now}],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    })  # fmt: skip


def hostile_service(console: Attacked, place: str) -> None:
    """A model's name holds no script; a message and an Event hold what anybody with the right writes."""
    model = {"id": "x", "source": {"pvc": {"claimName": "models", "path": "x"}}}
    document = console.shared.a_service(model=model)
    document["metadata"] |= {"namespace": place, "annotations": {"note": ALL}}
    document |= {"apiVersion": VERSION, "kind": "LLMService"}
    scripted = {**document["spec"], "model": {**model, "id": SCRIPTS[0]}}
    assert "spec.model.id must begin with" in console.apiserver.apply({**document, "spec": scripted}).stderr
    console.apply(document)
    now = "2026-01-01T00:00:00Z"
    rows = [
        {"type": kind, "status": "False", "reason": "CrashLoop", "message": ALL, "lastTransitionTime": now}
        for kind in ("Ready", "Progressing", "ModelReady")
    ]
    failure = {"reason": "CrashLoop", "message": ALL, "remedy": ALL}
    status(console, "llmservice", "qwen", place, {"conditions": rows, "failure": failure})
    console.apply({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "hostile", "namespace": place}, "type": "Warning",
        "reason": "Hostile", "message": ALL, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        "source": {"component": SCRIPTS[1]},
        "involvedObject": {"apiVersion": VERSION, "kind": "LLMService", "name": "qwen", "namespace": place},
    })  # fmt: skip


def hostile_pod(console: Attacked, place: str, address: str) -> None:
    """Running on the hostile node, and behind the Service of the chat."""
    labels = {"serving.windlass.dev/service": "qwen", "app.kubernetes.io/component": "server"}
    meta = {"name": "qwen-0", "namespace": place}
    container = {"name": "server", "image": "x"}
    console.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "labels": labels},
                   "spec": {"containers": [container], "nodeName": NODE}})  # fmt: skip
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": ALL}}
    state = {**container, "imageID": "", "ready": False, "restartCount": 7, "state": waiting}
    status(console, "pod", "qwen-0", place, {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "containerStatuses": [state],
    })  # fmt: skip
    ports = [{"name": "http", "port": 8501, "protocol": "TCP"}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "qwen", "namespace": place}}
    console.apply({**service, "spec": {"ports": ports}})
    target = {"kind": "Pod", **meta}
    console.apply({**service, "kind": "Endpoints",
                   "subsets": [{"addresses": [{"ip": address, "targetRef": target}], "ports": ports}]})  # fmt: skip


def fallen(page: Page) -> object:
    return page.evaluate(
        "() => window.fallen ?? document.querySelector('main img[src=x], main svg[onload]')?.outerHTML"
    )


@pytest.mark.parametrize("tab", TABS)
def test_hostile_text_on_a_services_page_is_text(page: Page, namespace: str, faults: list[str], tab: str) -> None:
    """Whoever wrote it: it is shown word for word, and nothing is run, loaded or refused by the policy."""
    page.evaluate("(to) => { location.hash = to; }", f"#/services/{namespace}/qwen/{tab}")
    expect(page.get_by_role("heading", name="qwen")).to_be_visible()
    if tab in ("overview", "logs", "events", "yaml"):
        expect(page.locator("main")).to_contain_text(SCRIPTS[0])
        expect(page.locator("main")).to_contain_text(SCRIPTS[2])
    if tab == "chat":
        page.get_by_role("textbox").last.fill("hi")
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_contain_text("constructor.constructor", timeout=WAIT_MS)
    page.wait_for_timeout(500)
    assert (fallen(page), faults) == (None, [])
    assert [
        one for one in page.locator("main a").evaluate_all("(all) => all.map((a) => a.href)") if "javascript:" in one
    ] == []


@pytest.mark.parametrize("place", ["services", "capacity", "licenses", "benchmarks"])
def test_hostile_text_on_other_pages_is_text(page: Page, namespace: str, faults: list[str], place: str) -> None:
    page.evaluate("(to) => { location.hash = to; }", f"#/{place}")
    if place == "services":
        expect(page.locator("main")).to_contain_text(SCRIPTS[0])
    if place == "capacity":
        expect(page.locator("main")).to_contain_text(NODE)
    page.wait_for_timeout(500)
    assert (fallen(page), faults) == (None, [])


def test_a_refusals_text_is_text(page: Page, namespace: str, faults: list[str]) -> None:
    """The API server repeats what was sent: in the sentence and at the field."""
    page.evaluate("(to) => { location.hash = to; }", "#/new")
    field = page.locator('[data-path="metadata.name"]').first
    field.fill(SCRIPTS[0])
    page.locator('[data-path="spec.model.id"]').first.fill(SCRIPTS[0])
    page.locator('[data-path="spec.model.source.pvc.claimName"]').first.fill(SCRIPTS[1])
    page.get_by_role("button", name="Create").click()
    page.wait_for_timeout(1500)
    assert (fallen(page), faults) == (None, [])
    for place in (SCRIPTS[0], f"services/{SCRIPTS[0]}/{SCRIPTS[1]}", f"services/{namespace}/{SCRIPTS[2]}/logs"):
        page.evaluate("(to) => { location.hash = to; }", f"#/{place}")
        page.wait_for_timeout(300)
        assert (fallen(page), faults) == (None, [])


def test_the_policy_holds_a_script_that_got_in(page: Page, faults: list[str]) -> None:
    """If a fault of the pages let markup in: no script runs, and nothing is sent elsewhere."""
    found = page.evaluate(INSIDE.read_text(encoding="utf-8"))
    assert found["fallen"] is None
    assert {name: found[name] for name in ("markup", "text", "fetch")} == dict.fromkeys(
        ("markup", "text", "fetch"), "refused"
    )
    assert found["handler"] in ("quiet", "refused")
    assert found["cookie"] == ""
    assert "token" not in found["storage"].lower()
    assert "eyJ" not in found["storage"]
    assert faults


class Evil(BaseHTTPRequestHandler):
    """A page of another port of the same host: browsers send it the same cookies."""

    page: ClassVar[bytes] = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(self.page)))
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *_: object) -> None:
        """Not on the test's output."""


def test_a_page_of_the_same_host_reads_and_changes_nothing(page: Page, console: Attacked, namespace: str) -> None:
    """Another port is the same site to a browser, so that it sends the cookie: with reads, forms, frames, streams."""
    before = console.apiserver.get("llmservice", "qwen", "-n", namespace)
    Evil.page = EVIL.read_text(encoding="utf-8").replace("URL", console.url).replace("NS", namespace).encode()
    with ThreadingHTTPServer(("127.0.0.1", 0), Evil) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        evil = page.context.new_page()
        seen: list[tuple[str, int]] = []
        evil.on("response", lambda answer: seen.append((answer.url, answer.status)))
        evil.goto(f"http://127.0.0.1:{server.server_port}/")
        found = evil.evaluate("all()")
        framed = [frame.url for frame in evil.frames if frame.name == "inner"]
        with evil.expect_navigation():
            evil.evaluate("document.getElementById('f').submit()")
        refused = evil.locator("body").inner_text()
        server.shutdown()
        thread.join()
    names = ("read", "erase", "scale", "stream", "script")
    assert {name: found[name] for name in names} == dict.fromkeys(names, "refused")
    assert '"reason": "Origin"' in refused
    assert {status for url, status in seen if "/api/" in url} <= {403, 405}
    assert framed != [f"{console.url}/"], "the console is shown in a foreign frame"
    assert console.apiserver.get("llmservice", "qwen", "-n", namespace) == before
    assert "stolen" not in console.apiserver.kubectl("get", "llmservices", "-n", namespace).stdout
