"""What becomes of Markdown, whole and while it grows."""

import re

import pytest
from playwright.sync_api import expect

MARKDOWN = {
    "**b** *i* ***both*** ~~s~~ `c`": "<p><strong>b</strong> <em>i</em> <strong><em>both</em></strong> "
    "<del>s</del> <code>c</code></p>",
    "a snake_case_name, 2 * 3 * 4 and *paths": "<p>a snake_case_name, 2 * 3 * 4 and *paths</p>",
    "one\ntwo": "<p>one<br>two</p>",
    "## Two\ntext": "<h4>Two</h4><p>text</p>",
    "- a\n- b\n  - c\n    - d\n- e": "<ul><li>a</li><li>b<ul><li>c<ul><li>d</li></ul></li></ul></li><li>e</li></ul>",
    "3. a\n4. b": "<ol><li>a</li><li>b</li></ol>",
    "> q\n> r\n\nend": "<blockquote><p>q<br>r</p></blockquote><p>end</p>",
    "| a | b |\n|---|--:|\n| 1 | `2` |": "<div><table><thead><tr><th>a</th><th>b</th></tr></thead>"
    "<tbody><tr><td>1</td><td><code>2</code></td></tr></tbody></table></div>",
    "```py\nif a < b:\n\tpass\n```\nx": "<figure><figcaption><span>py</span><button>Copy</button></figcaption>"
    "<pre><code>if a &lt; b:\n\tpass</code></pre></figure><p>x</p>",
    "```\nopen": "<figure><figcaption><span>code</span><button>Copy</button></figcaption>"
    "<pre><code>open</code></pre></figure>",
    "see https://example.org/a_b.": '<p>see <a href="https://example.org/a_b">https://example.org/a_b</a>.</p>',
    "日本語 **強調** 🎉": "<p>日本語 <strong>強調</strong> 🎉</p>",
}


@pytest.mark.parametrize("text", MARKDOWN, ids=range(len(MARKDOWN)))
def test_markdown_becomes_elements_and_grows_to_the_same(chat, text):
    """Whole or letter by letter, the same elements come of it."""
    page = chat.page
    chat.answer_with(*text)
    chat.ask()
    chat.wait_for_answer()
    html = page.locator(".answer .words").inner_html()
    assert re.sub(r' (?!href)[\w-]+="[^"]*"', "", html) == MARKDOWN[text]


def test_a_growing_answer_keeps_a_selection_and_the_scroll_place(chat):
    """Someone who reads and selects above is not disturbed by the words that come below."""
    page = chat.page
    page.evaluate(
        """() => {
          const encoder = new TextEncoder();
          window.fetch = async () => new Response(new ReadableStream({start: (at) => (window.feed = at)}));
          window.say = (text, cut = 3) => {
            const bytes = encoder.encode("data: " + JSON.stringify({choices: [{delta: {content: text}}]}) + "\\n\\n");
            for (let at = 0; at < bytes.length; at += cut) feed.enqueue(bytes.slice(at, at + cut));
          };
        }"""
    )
    chat.ask()
    chat.until("Boolean(window.feed)")
    page.evaluate("say('Ünïcödé 🎉 first\\n\\n' + 'line\\n\\n'.repeat(60) + 'last')")
    paragraph = page.locator(".answer .words p").first
    expect(paragraph).to_have_text("Ünïcödé 🎉 first")
    page.evaluate(
        """() => {
          document.querySelector("#scroll").scrollTop = 40;
          getSelection().selectAllChildren(document.querySelector(".answer .words p"));
        }"""
    )
    expect(page.get_by_role("button", name="To the latest words")).to_be_visible()
    page.evaluate("say(' and more'); say('\\n\\nend')")
    expect(page.locator(".answer .words p").last).to_have_text("end")
    assert page.evaluate("document.querySelector('#scroll').scrollTop") == 40
    assert page.evaluate("String(getSelection()).trim()") == "Ünïcödé 🎉 first"
    page.evaluate("say('ing'); feed.close()")
    chat.wait_for_answer()
