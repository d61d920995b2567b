"""The console's pages in Chromium, before its real back end and a real API server, as two users.

Not collected by itself: `make test-console` runs it where Chromium is. `make demo-console` has the cluster's part.
"""

import pytest
from playwright.sync_api import expect
from windlass_testbed.browsing.chromium import Visit, chromium
from windlass_testbed.browsing.console import DESKTOP, entered
from windlass_testbed.browsing.hands import Keyboard, Pointer

pytestmark = pytest.mark.apiserver
SENTENCE = "“GPUs of a replica” must be a multiple of spec.engine.tensorParallelSize"
LOOKS = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 780}, "is_mobile": True, "has_touch": True},
    "Chinese": {"locale": "zh-CN"},
}
TABS = ("overview", "graphs", "logs", "events", "call", "yaml")
REFUSED = ("status of 401", "status of 403", "status of 404", "status of 422")  # Chromium's own lines


@pytest.fixture
def visit():
    expect.set_options(timeout=30_000)
    with chromium() as browser:
        visit = Visit(browser, entered, viewport=DESKTOP, locale="en-GB", reduced_motion="reduce")
        yield visit
        visit.close()
        assert [line for line in visit.errors if not any(one in line for one in REFUSED)] == []


@pytest.fixture
def tokens(apiserver, at, namespace):
    """Of one who deploys and of one who only reads."""
    return [at.a_token(apiserver, namespace, name, rules) for name, rules in (("a", at.EDITOR), ("b", at.VIEWER))]


@pytest.fixture
def reader(visit, url, tokens):
    reader = visit.open(f"{url}/")
    reader.sign_in(tokens[1])
    return reader


@pytest.mark.parametrize("hands", [Pointer, Keyboard])
def test_two_users_and_one_service(visit, url, tokens, reader, hands):
    """One deploys, edits, scales and deletes; the other sees it live, and is offered nothing."""
    writer = visit.open(f"{url}/")
    writer.hands = hands()
    writer.sign_in(tokens[0])
    expect(reader.page.get_by_role("heading", name="No services here yet")).to_be_visible()

    writer.press("New service", "link")
    writer.write("metadata.name", "by-hand")
    writer.write("spec.model.id", "Qwen2-7B-Instruct")
    writer.write("spec.model.source.pvc.claimName", "models")
    writer.write("spec.resources.gpus", "3")
    writer.write_found("spec.engine.tensorParallelSize", "2")
    expect(writer.page.locator(".plan")).to_contain_text(SENTENCE)
    writer.write("spec.resources.gpus", "4")
    expect(writer.page.locator(".plan")).not_to_contain_text(SENTENCE)
    writer.press("Create")
    expect(writer.page.get_by_role("heading", name="by-hand", level=1)).to_be_visible()

    reader.press("by-hand", "link")
    expect(reader.page.get_by_role("heading", name="by-hand", level=1)).to_be_visible()
    for name in ("Delete", "Scale", "Suspend"):
        expect(reader.page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    reader.press("YAML", "link")
    shown = reader.page.get_by_role("region", name="YAML")
    writer.scale(3)
    expect(shown).to_contain_text("replicas: 3")
    writer.press("Edit", "link")
    writer.write("spec.engine.maxModelLen", "4096")
    writer.press("Save")
    expect(shown).to_contain_text("maxModelLen: 4096")
    writer.delete("by-hand")
    expect(reader.page.get_by_role("heading", name="by-hand is deleted")).to_be_visible()


def test_a_reader_is_refused_all_the_same(reader, namespace, at):
    """Requests past what the page offers: the API server's own refusal."""
    one = f"services/{namespace}/any"
    answers = [
        reader.send("DELETE", one),
        reader.send("PUT", f"{one}/scale", {"replicas": 0}),
        reader.send("POST", f"services/{namespace}", at.a_service("theirs")),
        reader.send("GET", "capacity"),
    ]
    assert [(status, body["reason"]) for status, body in answers] == [(403, "Forbidden")] * len(answers)


def test_a_service_that_is_not_there_is_named(reader, namespace):
    """An address from an old link: the page says so in the place of waiting for ever."""
    reader.go(f"services/{namespace}/never-was")
    expect(reader.page.get_by_role("heading", name="There is no service never-was")).to_be_visible()


def test_a_session_that_ends_keeps_what_was_typed(apiserver, at, visit, url, namespace, tokens):
    """The same user signs in again and goes on; another one finds an empty form."""
    console = visit.open(f"{url}/")
    console.sign_in(tokens[0])
    console.press("New service", "link")
    console.write("metadata.name", "kept")
    console.page.context.clear_cookies()
    console.write("spec.model.id", "Qwen2-7B-Instruct")  # asks for choices or a plan, and is answered with 401
    console.write("spec.model.source.pvc.claimName", "models")
    expect(console.page.get_by_label("Kubernetes token")).to_be_visible()
    console.hands.write(console.page.get_by_label("Kubernetes token"), tokens[0])
    console.press("Sign in")
    expect(console.field("spec.model.source.pvc.claimName")).to_have_value("models")
    expect(console.field("metadata.name")).to_have_value("kept")
    console.page.context.clear_cookies()
    console.write("metadata.name", "kept-2")
    expect(console.page.get_by_label("Kubernetes token")).to_be_visible()
    other = at.a_token(apiserver, namespace, "c", at.EDITOR)
    console.hands.write(console.page.get_by_label("Kubernetes token"), other)
    console.press("Sign in")
    expect(console.field("metadata.name")).to_have_value("")


def test_axe_finds_nothing_serious(apiserver, at, visit, url, namespace):
    """Every place before the real back end: light, dark, on a phone, in Chinese."""
    kind = {"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService"}
    assert apiserver.apply({**kind, **at.a_service("seen")}, "-n", namespace).returncode == 0
    places = ["services", "new", "capacity", "licenses", "benchmarks"]
    places += [f"services/{namespace}/seen/{tab}" for tab in TABS]
    found = {}
    for look, options in LOOKS.items():
        console = visit.open(f"{url}/", bypass_csp=True, **options)
        console.hands.write(console.page.locator("input[name=token]"), apiserver.token)
        found[look, "sign in"] = console.findings()
        console.page.keyboard.press("Enter")
        expect(console.rows().first).to_be_visible()
        for place in places:
            console.go(place)
            expect(console.page.get_by_role("heading", level=1)).to_be_visible()
            console.page.wait_for_timeout(500)
            found[look, place] = console.findings()
    assert {key: row for key, row in found.items() if row} == {}
