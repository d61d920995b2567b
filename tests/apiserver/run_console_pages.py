"""The console's pages in Chromium, before its real back end and a real API server, as two users.

Not collected by itself: `make test-console` runs it where Chromium is.
"""

import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

pytestmark = pytest.mark.apiserver
WAIT_MS = 30_000


@pytest.fixture
def open_page():
    """Opens the console in a browser of its own, signed in by a token."""
    program = shutil.which("chromium")
    if not program:
        pytest.fail("there is no chromium on PATH: apt-get install -y --no-install-recommends chromium")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])

        def start(url: str, token: str, complaints: list[str]):
            page = browser.new_context(viewport={"width": 1360, "height": 860}, locale="en-GB").new_page()
            page.set_default_timeout(WAIT_MS)
            page.on("console", lambda line: line.type == "error" and complaints.append(line.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(f"{url}/")
            page.get_by_label("Kubernetes token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="Services")).to_be_visible()
            return page

        yield start
        browser.close()


def field(page, path: str):
    """The form's field of a path of the resource."""
    return page.locator(f'[data-path="{path}"]').first


def test_two_users_and_one_service(apiserver, at, url, namespace, open_page):
    """One deploys, edits, scales and deletes; the other sees it live, and is offered nothing."""
    complaints: list[str] = []
    writer = open_page(url, at.a_token(apiserver, namespace, "editor", at.EDITOR), complaints)
    reader = open_page(url, at.a_token(apiserver, namespace, "viewer", at.VIEWER), complaints)
    expect(reader.get_by_role("heading", name="No services here yet")).to_be_visible()

    writer.get_by_role("link", name="New service").click()
    field(writer, "metadata.name").fill("by-hand")
    field(writer, "spec.model.id").fill("Qwen2-7B-Instruct")
    field(writer, "spec.model.source.pvc.claimName").fill("models")
    field(writer, "spec.resources.gpus").fill("3")
    writer.get_by_label("YAML").fill(
        writer.get_by_label("YAML").input_value() + "  engine:\n    tensorParallelSize: 2\n"
    )
    sentence = "spec.resources.gpus must be a multiple of spec.engine.tensorParallelSize"
    expect(writer.locator(".plan")).to_contain_text(sentence)
    field(writer, "spec.resources.gpus").fill("4")
    expect(writer.locator(".plan")).not_to_contain_text(sentence)
    writer.get_by_role("button", name="Create").click()
    expect(writer.get_by_role("heading", name="by-hand")).to_be_visible()

    reader.get_by_role("link", name="by-hand", exact=True).click()
    expect(reader.get_by_role("heading", name="by-hand")).to_be_visible()
    for name in ("Delete", "Scale", "Suspend"):
        expect(reader.get_by_role("button", name=name, exact=True)).to_have_count(0)
    reader.get_by_role("link", name="YAML").click()
    writer.get_by_role("button", name="Scale").click()
    writer.get_by_role("spinbutton", name="Replicas").fill("3")
    writer.get_by_role("dialog").get_by_role("button", name="Scale").click()
    expect(reader.get_by_role("region", name="YAML")).to_contain_text("replicas: 3")

    writer.get_by_role("link", name="Edit").click()
    field(writer, "spec.engine.maxModelLen").fill("4096")
    writer.get_by_role("button", name="Save").click()
    expect(reader.get_by_role("region", name="YAML")).to_contain_text("maxModelLen: 4096")
    writer.get_by_role("button", name="Delete").click()
    writer.get_by_role("dialog").get_by_role("textbox").fill("by-hand")
    writer.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(reader.get_by_role("heading", name="by-hand is deleted")).to_be_visible()
    signing_in = "the server responded with a status of 401"
    assert [line for line in complaints if signing_in not in line] == []
