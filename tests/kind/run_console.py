"""The console in Chromium on the cluster: a service's life by pointer, another by keyboard, two users, axe, pictures.

Not collected by itself: `make demo-console` runs it where Chromium and the console's node_modules are. It prints what
it saw, with seconds. `WINDLASS_PICTURES=1` writes the docs' pictures from this run.
"""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from windlass_testbed import cluster, deploy
from windlass_testbed.browsing.chromium import Visit, chromium
from windlass_testbed.browsing.console import DESKTOP, Console, entered
from windlass_testbed.browsing.hands import Keyboard
from windlass_testbed.paths import REPOSITORY

sys.path.insert(0, str(Path(__file__).parent))

import console_site
from console_pictures import Pictures

NAME, BY_KEYS, WRONG = "demo", "by-keyboard", "dmeo"
QUESTION = "What does os.path.join do?"
CONFIG = (REPOSITORY / "models/demo/config.json").read_text()
START_MS, CHANGE_MS = 600_000, 240_000
REMEDY = "correct that path in spec.model"
TABS = ("overview", "graphs", "logs", "events", "chat", "call", "yaml")
LOOKS = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 780}, "is_mobile": True, "has_touch": True},
    "Chinese": {"locale": "zh-CN"},
}
EXPECTED = ("status of 401", "status of 403")  # Chromium writes each refused request into the console


@dataclass(frozen=True)
class Site:
    """The console of this run, who uses it, and what is written down of it."""

    url: str
    deployer_token: str
    reader_token: str
    visit: Visit
    pictures: Pictures
    began: float

    def note(self, text: object) -> None:
        """Print it with the seconds since the start."""
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", flush=True)

    def signed_in(self, token: str, **options: Any) -> Console:
        """A user in a browser of their own."""
        console = self.visit.open(self.url, **options)
        console.sign_in(token)
        return console


@pytest.fixture(scope="module")
def visit():
    expect.set_options(timeout=30_000)
    with chromium() as browser:
        visit = Visit(browser, entered, viewport=DESKTOP, locale="en-GB", reduced_motion="reduce")
        yield visit
        visit.close()
        assert [line for line in visit.errors if not any(one in line for one in EXPECTED)] == []


@pytest.fixture(scope="module")
def site(bed, namespace, visit):
    began = time.monotonic()
    with console_site.installed(bed) as address, console_site.users(bed, namespace) as tokens:
        url = f"{address}/"
        pictures = Pictures(visit, url, tokens[0], os.environ.get("WINDLASS_PICTURES") == "1")
        yield Site(url, *tokens, visit, pictures, began)
        visit.close()  # before the address goes, which its pages would reconnect to


@pytest.fixture(scope="module")
def deployer(site):
    return site.signed_in(site.deployer_token)


@pytest.fixture(scope="module")
def reader(site):
    return site.signed_in(site.reader_token)


def fill(console, bed, name, path):
    """The form of a service of the demo's model, which leases from the scenarios' license server."""
    console.press("New service", "link")
    console.write("metadata.name", name)
    console.write("spec.model.id", "demo")
    console.write("spec.model.source.pvc.claimName", "models")
    console.write("spec.model.source.pvc.path", path)
    console.write_found("spec.resources.cpu", "300m")
    console.write_found("spec.resources.memory", "3Gi")
    console.write_found("spec.license.addresses", bed.licenses.url)


def change_path(console, path):
    console.press("Edit", "link")
    console.write("spec.model.source.pvc.path", path)
    console.press("Save")
    expect(console.status()).to_be_visible()


def test_deploy_by_the_form_and_watch_it_run(bed, site, deployer, reader):
    """The plan stands before it is created; each status is shown as it changes, to both users."""
    bed.license(cluster.gpu_list(bed.paths))
    expect(reader.page.get_by_role("heading", name="No services here yet")).to_be_visible()
    fill(deployer, bed, NAME, deploy.MODEL)
    deployer.page.get_by_label("config.json of the model").fill(CONFIG)
    plan = deployer.page.get_by_role("region", name="Plan")
    expect(plan.get_by_text("Fits", exact=True).first).to_be_visible()
    site.note(f"the plan before creating: {plan.locator('.cards-line').inner_text().strip()}")
    site.pictures.take("console-deploy", deployer.page)
    deployer.press("Create")
    expect(deployer.page.get_by_role("heading", name=NAME, level=1)).to_be_visible()
    deployer.record_statuses()
    site.note("created")
    expect(deployer.status()).to_have_text("Running", timeout=START_MS)
    site.note(f"statuses as the page showed them: {[text for text, _ in deployer.statuses()]}")
    expect(reader.row(NAME)).to_contain_text("Running")
    expect(reader.row(NAME)).to_contain_text("1/1")
    assert len(deployer.statuses()) >= 3


def test_chat_is_the_models_own_answer_as_it_grows(site, deployer):
    deployer.press("Chat", "link")
    lengths = deployer.ask(QUESTION)
    site.note(f"answer in {len(lengths)} pieces: {deployer.answer()!r}")
    assert "path" in deployer.answer()
    assert len(lengths) >= 4, lengths


def test_graphs_are_the_pods_own(site, deployer):
    """Figures of a load that a second page makes."""
    second = site.signed_in(site.deployer_token)
    second.go(deployer.page.url.rpartition("#/")[2].rpartition("/")[0] + "/chat")
    deployer.press("Graphs", "link")
    late = time.monotonic() + 30
    while time.monotonic() < late:
        second.ask(QUESTION)
        second.press("New conversation")  # a quick machine fills the model's context with one within the time
        second.page.wait_for_timeout(300)
    graph = deployer.page.get_by_role("img", name="Tokens a second")
    site.note(graph.get_attribute("aria-label"))
    assert "tok/s" in (graph.get_attribute("aria-label") or "")
    site.pictures.take("console-graphs", deployer.page)


def test_a_wrong_path_is_explained_and_repaired(site, deployer):
    """The page says what is wrong, what is there and what to do; the model answers all the while."""
    change_path(deployer, WRONG)
    page = deployer.page
    expect(page.locator(".remedy")).to_contain_text(REMEDY, timeout=CHANGE_MS)
    site.note(f"remedy: {page.locator('.remedy').inner_text()!r}")
    site.note(f"reason: {page.locator('.now .sentence').inner_text()!r}")
    expect(page.locator(".now .sentence")).to_contain_text(WRONG)
    expect(page.locator(".now .sentence")).to_contain_text("the change is not in force")
    deployer.press("Chat", "link")
    assert deployer.ask(QUESTION)
    change_path(deployer, deploy.MODEL)
    expect(page.locator(".remedy")).to_have_count(0, timeout=CHANGE_MS)
    expect(deployer.status()).to_have_text("Running", timeout=START_MS)
    site.note("repaired")


def test_a_reader_is_refused_all_the_same(site, namespace, bed, reader):
    """Nothing is offered; requests past the page are refused by the API server's own rules."""
    reader.press(NAME, "link")
    for name in ("Delete", "Scale", "Suspend", "Try again"):
        expect(reader.page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    for name in ("Edit", "Chat", "Graphs", "New service", "Capacity", "Licenses"):
        expect(reader.page.get_by_role("link", name=name, exact=True)).to_have_count(0)
    one = f"services/{namespace}/{NAME}"
    chat = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
    model = {"id": "x", "source": {"pvc": {"claimName": "models"}}}
    wanted = {"metadata": {"name": "theirs"}, "spec": {"model": model}}
    answers = [
        reader.send("DELETE", one),
        reader.send("PUT", f"{one}/scale", {"replicas": 0}),
        reader.send("PUT", f"{one}/suspend", {"suspend": True}),
        reader.send("POST", f"services/{namespace}", wanted),
        reader.send("POST", f"{one}/chat", chat),
        reader.send("GET", f"{one}/metrics"),
        reader.send("GET", "capacity"),
    ]
    assert [(status, body["reason"]) for status, body in answers] == [(403, "Forbidden")] * len(answers)
    site.note(f"refused: {answers[0][1]['error']}")
    assert bed.get(namespace, "llm", NAME)["spec"]["replicas"] == 1


def test_the_keyboard_alone(bed, site):
    """Sign in, deploy with a wrong path, read the remedy, repair, chat, scale and delete, without a pointer."""
    console = site.visit.open(site.url)
    console.hands = keys = Keyboard()
    console.sign_in(site.deployer_token)
    fill(console, bed, BY_KEYS, WRONG)
    console.press("Create")
    expect(console.status()).to_have_text("Path not found", timeout=CHANGE_MS)
    expect(console.page.locator(".remedy")).to_contain_text(REMEDY)
    site.pictures.take("console-service-dark", console.page, color_scheme="dark")
    site.pictures.lists()
    console.scale(0)
    change_path(console, deploy.MODEL)
    expect(console.status()).to_have_text("Scaled to zero", timeout=CHANGE_MS)
    console.delete(BY_KEYS)
    expect(console.row(BY_KEYS)).to_have_count(0)
    console.press(NAME, "link")
    console.press("Chat", "link")
    lengths = console.ask(QUESTION)
    site.note(f"by keyboard: {keys.tabs} times Tab; answer in {len(lengths)} pieces")
    site.pictures.take("console-chat", console.page)


def test_axe_finds_nothing_serious(site, namespace):
    """Every place before the real back end: light, dark, on a phone, in Chinese."""
    places = ["services", "new", "capacity", "licenses", "benchmarks"]
    places += [f"services/{namespace}/{NAME}/{tab}" for tab in TABS]
    found = {}
    for look, options in LOOKS.items():
        console = site.visit.open(site.url, bypass_csp=True, **options)
        console.hands.write(console.page.locator("input[name=token]"), site.deployer_token)
        found[look, "sign in"] = console.findings()
        console.page.keyboard.press("Enter")
        expect(console.rows().first).to_be_visible()
        for place in places:
            console.go(place)
            expect(console.page.get_by_role("heading", level=1)).to_be_visible()
            console.page.wait_for_timeout(700)
            found[look, place] = console.findings()
        site.note(f"axe, {look}: {len(places) + 1} places")
    assert {key: row for key, row in found.items() if row} == {}


def test_scale(site, namespace, bed, deployer, reader):
    """Both see the second replica come; one is enough for what follows."""
    shown = reader.page.locator("p.sub")
    deployer.scale(2)
    expect(shown).to_contain_text("1/2 replicas ready", timeout=CHANGE_MS)
    site.note("1/2 on the reader's page")
    expect(shown).to_contain_text("2/2 replicas ready", timeout=START_MS)
    site.note("2/2")
    deployer.scale(1)
    expect(shown).to_contain_text("1/1 replicas ready", timeout=CHANGE_MS)
    assert bed.get(namespace, "llm", NAME)["spec"]["replicas"] == 1


def test_delete(bed, site, namespace, deployer, reader):
    """Its name confirms it; the other's open page says so at once."""
    deployer.delete(NAME)
    expect(reader.page.get_by_role("heading", name=f"{NAME} is deleted")).to_be_visible()
    expect(deployer.row(NAME)).to_have_count(0)
    pods_of = f"serving.windlass.dev/service={NAME}"
    bed.wait("the pods' end", lambda: not bed.items(namespace, "pods", "-l", pods_of), 90)
    site.note("deleted")
