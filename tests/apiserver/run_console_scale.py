"""1,000 LLMServices before the console: time of the list, of the first rows, of 500 changes, memory; also in Chromium.

Not collected by itself; it prints figures, and fails where they are far from those in docs/how-to/run-console.md.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect
from windlass_testbed.browsing.chromium import Visit, chromium
from windlass_testbed.browsing.console import DESKTOP, entered

pytestmark = pytest.mark.apiserver
SERVICES, CHANGES = 1000, 500
KIND = {"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService"}
COLLECTION = "/apis/serving.windlass.dev/v1alpha1/namespaces/{}/llmservices"


def resident_mib(url: str) -> int:
    """Of the console's process, found by its port."""
    port = url.rpartition(":")[2]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and f"--port\0{port}".encode() in (entry / "cmdline").read_bytes():
            status = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
            return int(status["VmRSS"].split()[0]) // 1024
    raise AssertionError("the console's process is not there")


@contextmanager
def api(apiserver: Any) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {apiserver.token}"}
    with httpx2.Client(base_url=apiserver.url, headers=headers, verify=False, trust_env=False, timeout=60) as http:
        yield http


def change_all(apiserver: Any, collection: str) -> None:
    with api(apiserver) as http:
        for number in range(CHANGES):
            body = json.dumps({"spec": {"replicas": 2}})
            patch = {"Content-Type": "application/merge-patch+json"}
            http.patch(f"{collection}/s{number}", content=body, headers=patch).raise_for_status()


def create_all(apiserver: Any, at: Any, collection: str) -> None:
    with api(apiserver) as http:
        for number in range(SERVICES):
            http.post(collection, json={**KIND, **at.a_service(f"s{number}")}).raise_for_status()


def suspend_some(apiserver: Any, collection: str) -> None:
    with api(apiserver) as http:
        for number in range(CHANGES):
            body = json.dumps({"spec": {"suspend": True}})
            patch = {"Content-Type": "application/merge-patch+json"}
            http.patch(f"{collection}/s{number}", content=body, headers=patch).raise_for_status()


def test_a_thousand_services(apiserver, at, url, namespace, admin):
    """The list in a second, each change seen, and some tens of MiB for all of it."""
    collection = COLLECTION.format(namespace)
    idle = resident_mib(url)
    create_all(apiserver, at, collection)
    began = time.monotonic()
    listed = admin.get("/api/services", params={"namespace": namespace})
    print(f"\nlist: {time.monotonic() - began:.2f} s, {len(listed.content) >> 10} KiB")
    assert len(listed.json()["items"]) == SERVICES
    began = time.monotonic()
    with admin.stream("GET", "/api/services/watch", params={"namespace": namespace}) as answer:
        stream = at.events(answer)
        assert len(next(stream)[1]["upserted"]) == SERVICES
        print(f"first rows of the stream: {time.monotonic() - began:.2f} s")
        writer = threading.Thread(target=change_all, args=(apiserver, collection))
        began = time.monotonic()
        writer.start()
        seen: set[str] = set()
        while len(seen) < CHANGES:
            seen |= {row["name"] for row in next(stream)[1]["upserted"] if row["replicas"] == 2}
        print(f"{CHANGES} changes: {time.monotonic() - began:.2f} s")
        writer.join()
        used = resident_mib(url)
    print(f"memory: {idle} MiB idle, {used} MiB with the list")
    assert used - idle < 200


def test_a_thousand_services_in_the_page(apiserver, at, url, namespace):
    """First rows, frames while it scrolls, 500 changes while it scrolls, and what the page holds."""
    collection = COLLECTION.format(namespace)
    create_all(apiserver, at, collection)
    token = at.a_token(apiserver, namespace, "editor", at.EDITOR)
    with chromium() as browser:
        visit = Visit(browser, entered, viewport=DESKTOP, locale="en-GB")
        console = visit.open(f"{url}/")
        console.sign_in(token)
        expect(console.rows().first).to_be_visible(timeout=30_000)
        began = time.monotonic()
        console.page.reload()
        expect(console.rows().first).to_be_visible(timeout=30_000)
        first, still, before = time.monotonic() - began, console.scroll(), console.memory()
        print(f"\nfirst rows in the page: {first:.2f} s; frames (ms): {still}; {before}")
        writer = threading.Thread(target=suspend_some, args=(apiserver, collection))
        began = time.monotonic()
        writer.start()
        moving = console.scroll()
        expect(console.page.get_by_role("button", name=f"Off {CHANGES}")).to_be_visible(timeout=60_000)
        taken, after = time.monotonic() - began, console.memory()
        writer.join()
        print(f"{CHANGES} changes: {taken:.2f} s, {CHANGES / taken:.0f} a second; frames meanwhile: {moving}; {after}")
        visit.close()
    assert first < 5
    assert moving["median"] < 40, moving
    assert after["heap_mib"] < 64, after
