"""Answers that are made to cost the page as much as they can: it goes on hearing its reader, and shows every word.

`WINDLASS_FUZZ_MARKDOWN` is how many answers are drawn (20 without it); `make attack` draws 2,000.
"""

import os
import random

import pytest

SIZE = 50_000
LONGEST_S = 3.0
"""Seconds without a heartbeat. On two idle cores the worst of these answers takes 0.5 s; dde1513 takes minutes."""
DRAWS = int(os.environ.get("WINDLASS_FUZZ_MARKDOWN", "20"))
SEED = int(os.environ.get("WINDLASS_FUZZ_SEED", "1"))
DRAWN_SIZE = 20_000
PARTS = (
    *(
        "# ",
        "#",
        "- ",
        "* ",
        "1. ",
        "> ",
        "|",
        "a|b\n-|-\n",
        "-|-",
        ":-:",
        "```",
        "~~~",
        "`",
        "``",
        "*",
        "**",
        "***",
        "_",
    ),
    *(
        "[a](",
        "](",
        "[",
        "]",
        "(",
        ")",
        "!",
        "<",
        ">",
        '"',
        "'",
        "\\",
        "http://",
        "http://a.b/,",
        ".",
        "a",
        "é",
        "日",
        "🎉",
    ),
    *(" ", "  ", "    ", "\t", "\n", "\n\n", "\r\n", "\u2028", "\u00a0", "---", "- [ ] ", "~~", "\\["),
)


def run(text: str, size: int = SIZE) -> str:
    """A text again and again, up to a size."""
    return (text * (size // len(text) + 1))[:size]


HOSTILE = {
    "heading": "# " + run(" ") + "\u2028",
    "heading's marks": "# a" + run(" #") + "x",
    "tildes": "~" * SIZE + "`",
    "backticks": "```" + run(" ") + "`",
    "long fence": "`" * SIZE + "\n" + run("x\n"),
    "fence with words": "``` " + run("x") + "\n" + run("a\n"),
    "item": "- " + run(" ") + "\u2028",
    "task": "- [ ] " + run(" ") + "\u2028",
    "table's dashes": "a|b\n-|-" + run(" ") + "x",
    "rule": run("- ") + "x",
    "blank lines": "- a\n" + run("\n") + "  b",
    "blanks in lines": "- a\n" + run("   \n") + "  b",
    "wide table": "a|" * 90 + "\n" + "-|" * 90 + "\n" + run("|\n"),
    "too wide table": run("a|") + "\n" + run("-|") + "\n" + run("|\n"),
    "tables": run("a|b\n-|-\n"),
    "quotes": run("> "),
    "lists": run("- a\n"),
    "deep list": "\n".join(" " * depth + "- a" for depth in range(200)),
    "link's blanks": "[a](" + run(" ") + "x",
    "link's brackets": "[a](b" + run("()"),
    "links": run('[a](b "'),
    "links in links": "[a](y" + run("[a](x)"),
    "labels": "[" + run("\\["),
    "code": "` " + run("a") + "`",
    "runs of backticks": "".join("`" * length + " " for length in range(1, 300)),
    "addresses": run("http://,"),
    "dots": "http://a" + run("."),
    "stars": run("***a **b *c "),
    "underscores": run("_a_b"),
    "lines": run("a\n"),
    "without an end": run("*a"),
}
HEARTBEAT = """() => {
  window.longest = 0;
  let last = performance.now();
  setInterval(() => { const now = performance.now(); longest = Math.max(longest, now - last); last = now; }, 20);
}"""


def longest_s(chat, *pieces: str) -> float:
    """Ask, and give the longest time for which the page heard nobody."""
    chat.answer_with(*pieces)
    chat.page.evaluate(HEARTBEAT)
    chat.ask()
    chat.wait_for_answer()
    chat.until("longest > 0")
    return chat.page.evaluate("longest") / 1000


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_answer_does_not_hold_the_page(chat, text: str) -> None:
    """In one piece, and in eight."""
    cuts = range(0, len(text), len(text) // 8)
    assert longest_s(chat, text) < LONGEST_S
    chat.page.get_by_role("button", name="New conversation").click()
    assert longest_s(chat, *(text[at : at + len(text) // 8] for at in cuts)) < LONGEST_S


def test_drawn_answers_do_not_hold_the_page(chat) -> None:
    """Runs of all that Markdown knows, and no word of them is lost."""
    chance = random.Random(SEED)  # noqa: S311 — draws, no secrets
    for _ in range(DRAWS):
        parts = chance.choices(PARTS, k=chance.randint(1, 5))
        text = "".join(run(part, chance.choice((1, 3, 40, DRAWN_SIZE))) for part in parts) + "\n\nword"
        took_s = longest_s(chat, text)
        assert took_s < LONGEST_S, f"{parts} held the page for {took_s:.1f} s (seed {SEED})"
        assert "word" in chat.page.locator(".answer .words").last.text_content()
        chat.page.get_by_role("button", name="New conversation").click()


def test_the_end_of_a_very_long_answer_is_shown(chat) -> None:
    """As plain text: work is bounded, words are not."""
    assert longest_s(chat, "*a* " * 60_000 + "the **end**") < LONGEST_S
    assert chat.page.locator(".answer .words").last.text_content().endswith("the **end**")
