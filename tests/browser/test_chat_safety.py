"""Keys, path prefixes, and what stays out of the page."""

import re

from playwright.sync_api import expect

ANSWER = (
    "Join one or more path segments intelligently. The return value is the concatenation of path and all members of"
)


def test_a_wrong_key_is_refused_and_the_right_one_asks_again(front, visit):
    """The page asks for a key, says that a wrong one is wrong, and keeps the right one nowhere but in memory."""
    chat = visit.open(front("--key", "sesame"))
    page = chat.page
    expect(page.locator("#key-title")).to_have_text("This server asks for an API key.")
    expect(page.locator("#key")).to_be_focused()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#key-title")).to_have_text("The server did not accept this API key. Please check it.")
    chat.ask()
    expect(page.locator(".problem")).to_contain_text("did not accept this API key")
    page.locator("#key").fill("sesame")
    page.get_by_role("button", name="Use key").click()
    expect(page.locator(".problem")).to_be_hidden()
    chat.wait_for_answer()
    expect(page.locator("#key-form")).to_be_hidden()
    assert chat.words().startswith(ANSWER)
    stored = "[localStorage.length, sessionStorage.length, document.cookie, document.querySelector('#key').value]"
    assert page.evaluate(stored) == [0, 0, "", ""]
    assert "sesame" not in page.content()
    assert {text for text in visit.errors if "401" not in text} == set()
    visit.errors.clear()


def test_the_page_works_behind_any_path_prefix(front, visit):
    """A gateway that strips `/a/team/service` changes nothing for the person."""
    chat = visit.open(front("--prefix", "/a/team/service"))
    page = chat.page
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    chat.ask()
    chat.wait_for_answer()
    assert chat.words().startswith(ANSWER)
    assert all("/a/team/service/v1/" in url for url in asked), asked


HOSTILE = "<img src=x onerror=\"document.title='owned'\"> <script>document.title='owned'</script>"


def test_markup_in_a_question_or_an_answer_shows_as_text(chat):
    """Nothing that a person or a model writes becomes an element that it was not meant to be."""
    page = chat.page
    chat.answer_with(
        HOSTILE,
        "\n\n[go](javascript:alert(1)) <b onclick=x>b</b> [ok](https://example.org) `<i>`\n\n# <svg onload=x>",
    )
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("System prompt").fill(HOSTILE)
    page.get_by_role("button", name="Done").click()
    chat.ask(HOSTILE)
    chat.wait_for_answer()
    expect(page.locator(".question .words")).to_have_text(HOSTILE)
    assert HOSTILE in chat.words()
    assert "[go](javascript:alert(1))" in chat.words()
    assert page.locator(".turn :is(img, script, iframe, b, i, .words svg)").count() == 3  # the waiting dots of our own
    assert page.locator(".turn .words :is(img, script, iframe, b, i, svg)").count() == 0
    link = page.locator(".words a")
    expect(link).to_have_attribute("href", "https://example.org/")
    expect(link).to_have_attribute("rel", re.compile("noopener"))
    assert page.title() != "owned"


def test_the_real_engine_gets_markup_and_the_page_stays_whole(chat):
    """The same with the real model: whatever it makes of it, no element comes of it."""
    page = chat.page
    chat.ask(f"Repeat: {HOSTILE}")
    chat.wait_for_answer()
    assert page.locator(".turn .words :is(img, script)").count() == 0
    assert page.title() != "owned"


def test_the_browser_itself_refuses_injected_code(chat, visit):
    """Had the page a hole, the policy would still hold: no inline handler, no foreign request, no HTML from strings."""
    page = chat.page
    refused = page.evaluate(
        """async () => {
          const refused = [];
          document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
          const script = document.createElement("script");
          const attempt = (name, action) => { try { action(); } catch { refused.push(name); } };
          attempt("script", () => {
            script.textContent = "document.title = 'owned'";
            document.body.append(script);
          });
          attempt("html", () => document.body.insertAdjacentHTML("beforeend", "<p>x</p>"));
          await fetch("https://example.org/").catch(() => refused.push("fetch"));
          await new Promise((done) => setTimeout(done, 200));
          return refused;
        }"""
    )
    assert {"html", "fetch", "connect-src", "require-trusted-types-for"} <= set(refused)
    assert page.title() != "owned"
    assert visit.errors
    visit.errors.clear()


def test_a_broken_connection_keeps_the_words_and_offers_a_retry(chat):
    """The stream ends without its end: what was said stays, and asking again works."""
    page = chat.page
    chat.answer_with("Half of it", ended=False)
    chat.ask()
    expect(page.locator(".problem")).to_contain_text("connection broke before the answer was complete")
    assert chat.words() == "Half of it"
    page.unroute_all()
    page.get_by_role("button", name="Retry").click()
    chat.wait_for_answer()
    assert chat.words().startswith(ANSWER)
    expect(page.locator(".problem")).to_be_hidden()
