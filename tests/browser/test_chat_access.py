"""Phones, keyboards, colours, pictures: everyone can use the page."""

import re

import pytest
from playwright.sync_api import expect

QUESTION = "What does os.path.join do?"
PHONE = {"width": 360, "height": 740}


def test_a_phone_needs_no_sideways_scrolling(server, visit):
    """360 pixels are enough for a wide table, a long line of code and a word without an end."""
    chat = visit.open(server, viewport=PHONE, has_touch=True, is_mobile=True)
    page = chat.page
    chat.answer_with(
        "|a|b|c|d|e|\n|-|-|-|-|-|\n|" + "wide cell|" * 5, "\n\n```\n" + "x" * 300 + "\n```\n\n" + "y" * 300
    )
    chat.ask("z" * 300)
    chat.wait_for_answer()
    widths = "[document.documentElement.scrollWidth, document.querySelector('#scroll').scrollWidth]"
    assert max(page.evaluate(widths)) <= PHONE["width"]
    page.get_by_role("button", name="Settings", exact=True).click()
    assert page.evaluate("document.querySelector('#settings').scrollWidth") <= PHONE["width"]
    for button in page.get_by_role("button").all():
        box = button.bounding_box()
        assert box is None or (box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"])


def test_the_keyboard_is_enough(chat):
    """Ask, write a second line, open and leave the settings, edit by arrow, leave by Escape: no mouse."""
    page = chat.page
    expect(page.get_by_label("Your question")).to_be_focused()
    page.keyboard.type("first")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second")
    expect(page.get_by_label("Your question")).to_have_value("first\nsecond")
    page.keyboard.press("Control+a")
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    chat.wait_for_answer()
    expect(page.get_by_label("Your question")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label("Edit your question")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Edit and send again")).to_be_focused()
    focused = "document.activeElement.title || document.activeElement.id"
    page.get_by_label("Your question").focus()
    reached = []
    for _ in range(12):
        page.keyboard.press("Shift+Tab")
        reached.append(page.evaluate(focused))
    assert {"Answer again", "Copy answer", "Settings", "New conversation"} <= set(reached)
    page.locator("#open-settings").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Settings")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Settings")).to_be_hidden()
    expect(page.locator("#open-settings")).to_be_focused()


def test_a_wrong_number_is_refused_before_anything_is_sent(chat):
    """A temperature of 9 is pointed at, in the settings, and no request leaves."""
    page = chat.page
    sent = []
    page.on("request", lambda request: sent.append(request.url))
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("Temperature").fill("9")
    page.keyboard.press("Escape")
    chat.ask()
    expect(page.get_by_label("Temperature")).to_be_focused()
    expect(page.get_by_label("Temperature")).to_have_attribute("aria-invalid", "true")
    assert sent == []


CONTRAST = """() => {
  const shade = (colour) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const linear = (v) => (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const of = (name) => shade(getComputedStyle(document.documentElement).getPropertyValue(name));
  const pairs = ["ink paper", "faint paper", "faint soft", "ink tint", "accent paper", "on-accent accent",
    "bad bad-tint"];
  const shades = pairs.map((pair) => pair.split(" ").map((name) => of(`--${name}`)).sort((a, b) => b - a));
  return shades.map(([light, dark]) => (light + .05) / (dark + .05));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_light_and_dark(server, visit, scheme):
    """Every pair of colours for words has a contrast of 4.5 or more, and the schemes differ."""
    chat = visit.open(server, color_scheme=scheme)
    page = chat.page
    assert min(page.evaluate(CONTRAST)) >= 4.5
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) > 384) == (scheme == "light")


def test_nothing_moves_when_less_motion_is_wanted(server, visit):
    """`prefers-reduced-motion` ends every animation and transition."""
    chat = visit.open(server, reduced_motion="reduce")
    page = chat.page
    page.get_by_role("button", name="Settings", exact=True).click()
    assert page.evaluate("document.getAnimations().length") == 0


def test_an_image_goes_as_a_data_url(chat):
    """The attached picture is shown and sent as an `image_url` part."""
    page = chat.page
    dot = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fccff0bf1e00068402"
        "3f5b2c3a0a0000000049454e44ae426082"
    )
    chat.answer_with("A dot.")
    sent = []
    page.on("request", lambda request: request.method == "POST" and sent.append(request.post_data_json))
    page.locator("#file").set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": dot})
    expect(page.locator("#images img")).to_have_count(1)
    chat.ask("What is this?")
    chat.wait_for_answer()
    text, image = sent[0]["messages"][0]["content"]
    assert text == {"type": "text", "text": "What is this?"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    expect(page.locator(".question .pictures img")).to_have_count(1)


def test_several_models_can_be_chosen_from(server, visit, browser):
    """One model is only named; of several the person chooses, and the choice is sent."""
    chat = visit.open(server)
    page = chat.page
    expect(page.get_by_label("Model")).to_be_disabled()
    listed = {"data": [{"id": "small"}, {"id": "large"}]}
    page.route("**/v1/models", lambda route: route.fulfill(json=listed))
    chat.answer_with("Well.")
    page.reload()
    expect(page.get_by_label("Model")).to_be_enabled()
    page.get_by_label("Model").select_option("large")
    with page.expect_request("**/v1/chat/completions") as asked:
        chat.ask()
    assert asked.value.post_data_json["model"] == "large"
    chat.wait_for_answer()
