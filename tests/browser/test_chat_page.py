"""A conversation as a person has it: real Chromium, real answers of the demo model."""

import json
import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

QUESTION = "What does os.path.join do?"
ANSWER = (
    "Join one or more path segments intelligently. The return value is the concatenation of path and all members of"
)
MEASURE = re.compile(r"^\d+ tokens · [\d.]+ tokens/s · first token [\d.]+ m?s$")


def test_a_question_gets_the_right_answer_as_a_stream(chat):
    """The words grow while the model speaks, and the measure stands below them."""
    page = chat.page
    page.evaluate(
        """() => {
          window.lengths = new Set();
          const note = () => lengths.add(document.querySelector(".answer:last-child .words")?.textContent.length ?? 0);
          const everything = {subtree: true, childList: true, characterData: true};
          new MutationObserver(note).observe(document.querySelector("#talk"), everything);
        }"""
    )
    for attempt in range(1, 4):  # a busy machine may hand a short answer over in one piece, but not three times
        chat.ask()
        chat.wait_for_answer(attempt)
        assert chat.words().startswith(ANSWER)
        if grew := page.evaluate("lengths.size") > 5:
            break
    assert grew
    expect(page.locator(".measure").last).to_have_text(MEASURE)
    expect(page.locator("#talk")).to_have_attribute("aria-busy", "false")


def test_the_request_is_what_the_settings_say(chat):
    """An empty field is not sent; a filled one is."""
    page = chat.page
    sent = []
    page.on("request", lambda request: request.method == "POST" and sent.append(request.post_data_json))
    chat.ask()
    chat.wait_for_answer()
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("System prompt").fill("You are a helpful assistant.")
    page.get_by_label("Temperature").fill("0")
    page.get_by_label("Max tokens").fill("4")
    page.get_by_role("button", name="Done").click()
    chat.ask()
    chat.wait_for_answer(2)
    first, second = sent
    assert first == {
        "model": first["model"],
        "messages": [{"role": "user", "content": QUESTION}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert (second["temperature"], second["max_tokens"], "top_p" in second) == (0, 4, False)
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    expect(page.locator(".note").last).to_contain_text("largest number of tokens")
    expect(page.locator(".measure").last).to_contain_text("4 tokens")


@pytest.mark.parametrize("by", ["button", "Escape"])
def test_stop_keeps_the_answer_so_far(chat, by):
    """A long answer ends when asked to, and the next question is answered."""
    page = chat.page
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("Temperature").fill("2")
    page.get_by_role("button", name="Done").click()
    body = {"min_tokens": 600, "max_tokens": 900, "ignore_eos": True}  # or the demo model is done before we can stop it

    def longer(route: Route) -> None:
        route.continue_(post_data=json.dumps(route.request.post_data_json | body))

    page.route("**/v1/chat/completions", longer)
    chat.ask()
    chat.until("document.querySelector('.answer .words').textContent.length > 40")
    page.get_by_role("button", name="Stop").click() if by == "button" else page.keyboard.press("Escape")
    chat.wait_for_answer()
    kept = chat.words()
    expect(page.locator(".note")).to_have_text("Stopped.")
    expect(page.locator(".measure")).to_contain_text("≈")
    time.sleep(0.5)  # clock: pieces that were under way arrive; a slow machine only shows fewer
    assert chat.words() == kept
    page.unroute_all()
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="New conversation").click()
    chat.ask()
    chat.wait_for_answer()
    assert chat.words().startswith(ANSWER)


def test_answer_again_edit_and_begin_anew(chat):
    """The last question can be asked again as it is or changed; a new conversation can be taken back."""
    page = chat.page
    chat.ask()
    chat.wait_for_answer()
    first = chat.words()
    page.get_by_role("button", name="Answer again").click()
    chat.wait_for_answer()
    assert chat.words() == first
    page.get_by_role("button", name="Edit and send again").click()
    page.get_by_label("Edit your question").fill("What does os.getcwd do?")
    page.keyboard.press("Enter")
    chat.wait_for_answer()
    expect(page.locator(".question .words")).to_have_text(["What does os.getcwd do?"])
    assert chat.words() != first
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".turn")).to_have_count(0)
    expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    page.get_by_role("button", name="Bring the last one back").click()
    expect(page.locator(".question .words")).to_have_text(["What does os.getcwd do?"])


def test_copy_and_download(chat):
    """The answer's Markdown is in the clipboard; the file is a request that continues the conversation."""
    page = chat.page
    chat.ask()
    chat.wait_for_answer()
    page.get_by_role("button", name="Copy answer").click()
    expect(page.locator("#told")).to_have_text("Answer copied.")
    assert page.evaluate("navigator.clipboard.readText()").startswith(ANSWER)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    kept = json.loads(Path(download.value.path()).read_text())
    assert download.value.suggested_filename.endswith(".json")
    assert [message["role"] for message in kept["messages"]] == ["user", "assistant"]
    assert kept["messages"][1]["content"].startswith(ANSWER)


def test_a_refusal_is_the_servers_own_sentence_with_a_retry(chat, visit):
    """Too long a question: the engine says so, in its words; a shorter one can be asked at once."""
    page = chat.page
    chat.ask("path " * 3000)
    expect(page.locator(".problem")).to_contain_text(re.compile("maximum context length|longer than", re.I))
    expect(page.get_by_role("button", name="Retry")).to_be_visible()
    chat.ask()
    chat.wait_for_answer(2)
    assert chat.words().startswith(ANSWER)
    assert [text for text in visit.errors if "400" not in text] == []
    visit.errors.clear()  # Chromium itself writes a failed request into the console
