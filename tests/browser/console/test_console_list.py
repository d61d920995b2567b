"""The list of services: live, filtered, sorted, and smooth with a thousand of them."""

import io
import re
import time

from PIL import Image
from playwright.sync_api import expect
from windlass_testbed.waiting import wait_until

PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
WIDEST = "Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth)"


def test_a_change_is_shown_as_it_happens(console):
    """The row of the service changes, the counts too, and a live region says it."""
    page = console.page
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="llama-3-70b", exact=True))
    expect(row).to_contain_text("Starting")
    console.become(("chat", "llama-3-70b", "Running"))
    expect(row).to_contain_text("Running")
    expect(row).to_contain_text("1/1")
    expect(page.locator("[role=status]").first).to_have_text("llama-3-70b: Running")


def test_the_filter_finds_by_name_model_and_status(console):
    """Every word must be found, anywhere in the row."""
    page = console.page
    page.keyboard.press("/")
    page.keyboard.type("qwen2 72b")
    expect(console.rows()).to_have_count(3)
    page.get_by_label("Filter by name").fill("downloading coder")
    expect(console.rows()).to_have_count(3)
    page.get_by_label("Filter by name").fill("no such thing")
    expect(page.get_by_role("heading", name="No service matches the filter")).to_be_visible()


def test_states_and_order(console):
    """The chips choose a state; the head sorts, both ways."""
    page = console.page
    page.get_by_role("button", name="Failing 6").click()
    expect(console.rows()).to_have_count(6)
    page.get_by_role("button", name="All 24").click()
    page.get_by_role("columnheader").get_by_role("button", name="Status").click()
    expect(console.rows().first).to_contain_text("Path not found")
    page.get_by_role("columnheader").get_by_role("button", name="Status").click()
    expect(console.rows().first).to_contain_text("Suspended")
    expect(console.rows().first).to_contain_text("0 × L20")
    expect(page.get_by_role("columnheader", name="Status")).to_have_attribute("aria-sort", "descending")


def test_a_reason_without_a_text_is_spelled(console):
    """Words of the reason, with abbreviations as a person writes them; any other word stands."""
    source = console.page.locator("script[type=module]").get_attribute("src").replace("main.js", "parts/reason.js")
    spelled = console.page.evaluate(
        "([source, words]) => import(new URL(source, document.baseURI)).then((reason) => words.map(reason.reasonText))",
        [source, ["GpuTooOld", "NodeLost", "LicenseMissing", "OOMKilled", ""]],
    )
    assert spelled == ["GPU too old", "Node lost", "No license", "OOMKilled", ""]


def test_a_namespace_is_chosen_and_kept(console):
    """Only its services are listed, after a reload too."""
    page = console.page
    page.get_by_label("Namespace").select_option("research")
    expect(page.get_by_role("button", name="All 6")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="All 6")).to_be_visible()


def test_a_thousand_services(stand_in, visit, record_property):
    """Only rows in sight are drawn; scrolling keeps its frames; the last row is reached."""
    console = visit.open(stand_in("--services", "1000"))
    page = console.page
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "1001")
    assert console.rows().count() < 60
    frames = console.scroll()
    record_property("frames_ms", frames)
    assert frames["median"] < 40, frames
    page.evaluate("document.querySelector('.services .scroll').scrollTop = 1e9")
    expect(page.get_by_role("row").last).to_have_attribute("aria-rowindex", "1001")


SETTLE_MS = 3000
"""The page shows "Running" between the changes too, so that its counts do not tell when the last one has come."""


def after_changes(console, keys):
    """Every service starts and runs three times: 6,000 changes of 1,000 services; then the page's memory."""
    for status in ("Starting", "Running") * 3:
        console.become(*((*key, status) for key in keys))
    console.page.wait_for_timeout(SETTLE_MS)
    expect(console.page.get_by_role("button", name="Running 1\u202f000")).to_be_visible(timeout=60_000)
    return console.memory()


def test_changes_leave_nothing_behind(stand_in, visit, record_property):
    """The first thousands fill buffers of the browser; after them the memory of the page stays."""
    console = visit.open(stand_in("--services", "1000"))
    expect(console.rows().first).to_be_visible()
    keys = [(row["namespace"], row["name"]) for row in console.send("GET", "services?namespace=*")[1]["items"]]
    after_changes(console, keys)
    before, after = after_changes(console, keys), after_changes(console, keys)
    record_property("memory", {"before": before, "after": after})
    print(f"\n6,000 changes: {before} before, {after} after")
    assert after["heap_mib"] < before["heap_mib"] + 1, (before, after)
    assert after["nodes"] < before["nodes"] + 500, (before, after)


def test_the_page_stands_again(stand_in, visit):
    """From the address to the first rows of a thousand, warm; the seconds are printed."""
    address = stand_in("--services", "1000")
    console = visit.open(address)
    expect(console.rows().first).to_be_visible()
    taken = []
    for _ in range(3):
        began = time.monotonic()
        console.page.reload()
        expect(console.rows().first).to_be_visible()
        taken.append(time.monotonic() - began)
    print(f"\nfirst rows of a thousand: {min(taken):.2f} s")


def test_below_a_path_prefix(stand_in, visit):
    """Every address is relative: nothing is asked outside the prefix."""
    address = stand_in("--prefix", "/team/console")
    outside = []
    console = visit.open(address)
    console.page.on("request", lambda request: request.url.startswith(address) or outside.append(request.url))
    console.page.reload()
    expect(console.rows().first).to_be_visible()
    console.go("new")
    expect(console.page.get_by_role("heading", name="New service")).to_be_visible()
    assert outside == []


def test_on_a_phone(stand_in, visit):
    """Nothing is wider than the screen, and every place is reached."""
    console = visit.open(stand_in(), **PHONE)
    page = console.page
    for place in ("Services", "Capacity", "Licenses", "Benchmarks"):
        page.get_by_role("link", name=place, exact=True).last.click()
        expect(page.get_by_role("heading", name=place, level=1)).to_be_visible()
        assert page.evaluate(WIDEST) <= 390, place
    for place in (
        "new",
        "services/chat/baichuan2-13b",
        "services/chat/qwen2-7b",
        "services/chat/qwen2-7b/logs",
        "services/chat/qwen2-7b/chat",
    ):
        console.go(place)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate(WIDEST) <= 390, place


def test_messages_on_a_phone(stand_in, visit):
    """A condition's and an event's sentence stands below its row, within the screen."""
    console = visit.open(stand_in(), **PHONE)
    for place, message in (("", "1 × L20, TP 1, context 8192"), ("/events", "Readiness probe failed: HTTP 503")):
        console.go(f"services/chat/qwen2-7b{place}")
        cell = console.page.locator("td", has_text=message)
        cell.scroll_into_view_if_needed()
        box = cell.bounding_box()
        assert box, place
        assert (box["x"] >= 0, box["x"] + box["width"] <= 390, box["width"] > 250) == (True, True, True), place


def test_the_chats_field_on_a_phone(stand_in, visit):
    """The question's field and its button lie above the bar at the bottom, without scrolling; the log likewise."""
    console = visit.open(stand_in(), **PHONE)
    page = console.page
    console.go("services/chat/qwen2-7b/chat")
    bar = page.get_by_role("navigation", name="Places of the console").bounding_box()
    for part in (page.get_by_label("Your question"), page.get_by_role("button", name="Send")):
        box = part.bounding_box()
        assert bar
        assert box
        assert box["y"] + box["height"] <= bar["y"]
    console.go("services/chat/qwen2-7b/logs")
    box = page.get_by_role("region", name="Logs").bounding_box()
    assert bar
    assert box
    assert box["y"] + box["height"] <= bar["y"]


def test_tabs_hint_that_they_go_on(stand_in, visit):
    """An edge beyond which there are tabs is darker than the ground; at the end it is not. The open tab is in sight."""
    console = visit.open(stand_in(), **PHONE)
    page = console.page
    console.go("services/chat/qwen2-7b")
    tabs = page.get_by_role("navigation", name="Parts of the service")
    expect(tabs).to_be_visible()
    wait_until(lambda: edges(tabs) == ("ground", "shade"), "the shade of the right edge")
    tabs.evaluate("bar => { bar.scrollLeft = bar.scrollWidth }")
    wait_until(lambda: edges(tabs) == ("shade", "ground"), "the shade of the left edge")
    console.go("services/chat/qwen2-7b/yaml")
    expect(tabs.get_by_role("link", name="YAML")).to_be_in_viewport(ratio=0.9)


def edges(tabs):
    """Whether the first and the last pixel of the bar, between the names and the line below, are shaded."""
    image = Image.open(io.BytesIO(tabs.screenshot())).convert("L")
    ground = image.getextrema()[1]
    return tuple("shade" if ground - image.getpixel((x, 3)) > 10 else "ground" for x in (2, image.width - 3))


def test_licenses_know_at_once(stand_in, visit):
    """The menu marks a license server that cannot be reached, and the page says it without asking anew."""
    console = visit.open(stand_in("--licenses", "unreachable"))
    page = console.page
    entry = page.get_by_role("link", name="Licenses cannot be reached")
    expect(entry).to_be_visible()
    page.route("**/api/licenses", lambda route: None)  # never answered
    entry.click()
    expect(page.get_by_text("cannot be reached by the API server")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Asking")).to_have_count(0)


def test_an_answer_to_one_user_is_not_shown_to_the_next(stand_in, visit):
    """The license servers' answer to a user who has signed out is dropped when it comes."""
    console = visit.open(stand_in("--signed-out"))
    page, held = console.page, []
    page.route("**/api/licenses", lambda route: held.append(route))  # noqa: PLW0108 - playwright marks the function
    for _ in ("one", "next"):
        page.get_by_label("Kubernetes token").fill("good")
        with page.expect_request("**/api/licenses"):
            page.keyboard.press("Enter")
        expect(console.rows().first).to_be_visible()
        if len(held) == 1:
            page.get_by_role("button", name="Sign out").click()
    with page.expect_response("**/api/licenses"):
        held[0].continue_()
    page.get_by_role("link", name="Licenses", exact=True).click()
    expect(page.get_by_text("Asking the license servers…")).to_be_visible()
    expect(page.locator("main h2")).to_have_count(0)
    held[1].continue_()
    expect(page.locator("main h2").first).to_be_visible()
    visit.errors.clear()


def test_a_figure_that_is_not_known_is_left_out(console):
    """No sentence has a dash in the place of a number."""
    page = console.page
    console.go("services/chat/llama-3-70b")
    measured = page.locator(".plan .hint", has_text="Measured in one engine")
    expect(measured).to_have_text(re.compile("^Measured in one engine: KV cache 23.10 GiB · room for"))


def test_signing_in_and_out(stand_in, visit):
    """A wrong token is answered with a sentence; the right one opens the list; no storage holds it."""
    console = visit.open(stand_in("--signed-out"))
    page = console.page
    page.get_by_label("Kubernetes token").fill("bad")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("the API server does not accept this token")
    page.get_by_label("Kubernetes token").fill("good")
    page.keyboard.press("Enter")
    expect(console.rows().first).to_be_visible()
    assert "good" not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Kubernetes token")).to_be_visible()
    refused = "Failed to load resource: the server responded with a status of 401 (Unauthorized)"
    assert set(visit.errors) == {refused}
    visit.errors.clear()


def test_a_session_that_ends_says_so(console, visit):
    """The page for signing in tells why it is there."""
    console.page.route("**/api/services/**", lambda route: route.fulfill(status=401, json={"error": "x"}))
    console.page.route("**/api/session", lambda route: route.fulfill(status=401, json={"error": "x"}))
    console.go("services/chat/qwen2-7b/events")
    expect(console.page.get_by_role("alert")).to_have_text("Your session has ended. Sign in with a new token.")
    visit.errors.clear()  # the refused requests
